"""Single or double precision of JAX arrays."""

import jax

from .errors import InvalidInputError, PrecisionError

_DOUBLE = {"single": False, "double": True}


def set_precision(precision: str) -> None:
    """Sets JAX to compute in `single` or `double` precision.

    JAX starts in single precision. Call this before creating arrays: existing arrays
    keep their dtype. The function sets `jax_enable_x64`. It also selects the highest
    precision of matrix products; by default, accelerators round their factors, for
    example to ten bits (TF32).

    >>> import meanfield
    >>> meanfield.set_precision("double")
    >>> meanfield.Points.uniform([[1.0], [2.0]]).tokens.x.dtype
    dtype('float64')

    Raises:
        InvalidInputError: if `precision` is neither `single` nor `double`.
    """
    if precision not in _DOUBLE:
        names = " or ".join(f'"{name}"' for name in _DOUBLE)
        raise InvalidInputError(f"`precision` must be {names}; got {precision!r}.")
    jax.config.update("jax_enable_x64", _DOUBLE[precision])
    jax.config.update("jax_default_matmul_precision", "highest")


def check_double_precision(subject: str) -> None:
    """Raises unless JAX computes in double precision.

    Args:
        subject: beginning of the message, such as "`x` is float64".

    Raises:
        PrecisionError: if JAX is set to single precision.
    """
    if not jax.config.read("jax_enable_x64"):
        raise PrecisionError(
            f"{subject}, but JAX computes in single precision, its default; call "
            '`meanfield.set_precision("double")` before creating any array.'
        )
