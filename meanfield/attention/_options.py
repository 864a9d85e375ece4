"""The arguments of factories of variants: matrices, and options in a dataclass."""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from meanfield._array import float_array
from meanfield._registry import suggestion
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError

R = TypeVar("R")

_ENTRY = re.compile(r"^    options: .*\n", flags=re.MULTILINE)


def expand_options(factory: Callable[..., R]) -> Callable[..., R]:
    """Decorator that gives a factory one keyword for each field of its `options`.

    The keywords replace the dataclass `options` in the signature and the docstring.
    """
    signature = inspect.signature(factory)
    options = signature.parameters["options"].annotation
    names = [field.name for field in dataclasses.fields(options)]
    parameters = [
        parameter
        for old in signature.parameters.values()
        for parameter in (_keywords(options) if old.name == "options" else [old])
    ]
    public = signature.replace(parameters=parameters)

    @functools.wraps(factory)
    def call(*args: Any, **keywords: Any) -> R:
        try:
            public.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{factory.__name__}() {error}") from None
        fields = {name: keywords.pop(name) for name in names if name in keywords}
        return factory(*args, options=options(**fields), **keywords)

    call.__signature__ = public  # pyright: ignore[reportAttributeAccessIssue]
    entries = "".join(map(_entries, reversed(options.__mro__[:-1])))
    call.__doc__ = _ENTRY.sub(lambda _: entries, inspect.getdoc(factory) or "")
    return call


def _entries(options: type) -> str:
    """The lines of a docstring that describe the attributes."""
    _, _, entries = (inspect.getdoc(options) or "").partition("Attributes:\n")
    return entries.partition("\n\n")[0] + "\n"


def _keywords(options: type) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=field.type,
        )
        for field in dataclasses.fields(options)
    ]


def complete_matrices(
    Q: Numbers | None = None,
    K: Numbers | None = None,
    V: Numbers = 1.0,
    *,
    A: Numbers | None = None,
    d: int | None = None,
    **options: Any,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The matrices and options of a factory; `A` and numbers $c$ are expanded.

    Raises:
        InvalidInputError: if matrices are missing, or do not fit.
    """
    matrices = {**_score_matrices(Q, K, A), "V": V}
    if d is not None or any(map(_is_number, matrices.values())):
        matrices = _expand_numbers(matrices, d)
    return tuple(matrices.values()), options


def name_error(factory: Callable[..., object], options: Mapping[str, Any]) -> TypeError:
    """The error of an option that a factory with completed matrices does not have."""
    names = list(public_signature(factory).parameters)
    name = min(options.keys() - set(names))
    hint = suggestion(name, names)
    return TypeError(f"`{factory.__name__}` has no argument `{name}`; {hint}")


def public_signature(factory: Callable[..., object]) -> inspect.Signature:
    """The signature of a factory whose matrices are completed."""
    matrices = inspect.signature(complete_matrices).parameters
    old = inspect.signature(factory)
    names = [name for name in matrices if name != "options"]
    options = [old.parameters[name] for name in old.parameters if name not in names]
    return old.replace(parameters=[*map(matrices.__getitem__, names), *options])


def _score_matrices(
    Q: Numbers | None, K: Numbers | None, A: Numbers | None
) -> dict[str, Any]:
    """The matrices of queries and keys; those of `A` are `A` and $I$."""
    arguments = zip("AQK", (A, Q, K), strict=True)
    names = [name for name, matrix in arguments if matrix is not None]
    if names in ([], ["A"]):
        return {"A": 1.0 if A is None else A, "K": 1.0}
    if names != ["Q", "K"]:
        raise InvalidInputError(
            f"The scores must have `Q` and `K`, or only `A`, which stands for `K.T @ "
            f"Q`; got {' and '.join(f'`{name}`' for name in names)}."
        )
    return {"Q": Q, "K": K}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) or getattr(value, "ndim", 1) == 0


def _expand_numbers(matrices: dict[str, Any], d: int | None) -> dict[str, Array]:
    """The matrices, with $cI$ in dimension `d` for each number $c$."""
    if d is not None and (type(d) is bool or not isinstance(d, int | np.integer)):
        raise InvalidInputError(f"`d` must be a positive integer; got {d!r}.")
    arrays = {name: float_array(name, value) for name, value in matrices.items()}
    whole = [array for array in arrays.values() if array.ndim]
    sizes = {array.shape[-1] for array in whole} | (set() if d is None else {int(d)})
    if len(sizes) != 1 or min(sizes) < 1:
        facts = [f"`{n}` of shape {a.shape}" for n, a in arrays.items() if a.ndim]
        facts += [] if d is None else [f"`d` = {d}"]
        raise InvalidInputError(
            "Matrices and `d` must state one dimension of the tokens, the number of "
            f"columns; got {' and '.join(facts) or 'none'}. Give `d` or other matrices."
        )
    if "A" in arrays and arrays["A"].ndim and arrays["A"].shape[0] not in sizes:
        raise InvalidInputError(f"`A` must be square; got shape {arrays['A'].shape}.")
    dtype = jnp.result_type(*(whole or arrays.values()))
    identity = jnp.eye(sizes.pop(), dtype=dtype)
    return {n: a if a.ndim else a.astype(dtype) * identity for n, a in arrays.items()}
