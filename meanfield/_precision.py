"""Single or double precision, for all arrays that are made from here on."""

import jax

from .errors import InvalidInputError, PrecisionError

_DOUBLE = {"single": False, "double": True}


def set_precision(precision: str) -> None:
    """Has JAX compute in `single` or `double` precision from here on.

    JAX begins in single precision. Call this first: arrays that were made before keep
    the format that they have. It sets JAX's own `jax_enable_x64`, and has products of
    matrices keep all digits of single precision: accelerators round their factors to
    ten bits otherwise (TF32).

    >>> import meanfield
    >>> meanfield.set_precision("double")
    >>> meanfield.Points.uniform([[1.0], [2.0]]).tokens.x.dtype
    dtype('float64')

    Raises:
        InvalidInputError: if it is neither.
    """
    if precision not in _DOUBLE:
        known = " or ".join(f'"{name}"' for name in _DOUBLE)
        raise InvalidInputError(f"A precision is {known}; got {precision!r}.")
    jax.config.update("jax_enable_x64", _DOUBLE[precision])
    jax.config.update("jax_default_matmul_precision", "highest")


def refuse_rounding(what: str) -> None:
    """Refuses double precision while JAX would round it.

    Args:
        what: is in double precision, as the message begins.

    Raises:
        PrecisionError: if JAX is set to single.
    """
    if not jax.config.read("jax_enable_x64"):
        raise PrecisionError(
            f"{what} and JAX is set to single, its default; write "
            '`meanfield.set_precision("double")` before making any array.'
        )
