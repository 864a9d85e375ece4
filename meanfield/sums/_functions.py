"""Log-sum-exp and softmax-weighted means over the keys."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield._array import float_array, is_concrete, real_array
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError
from meanfield.measures import Keys
from meanfield.measures.reductions import AbstractReduction, Blocked
from meanfield.scores import Dot
from meanfield.tokens import Tokens


def log_sum_exp(
    queries: Numbers,
    keys: Numbers,
    log_weights: Numbers | None = None,
    *,
    reduction: AbstractReduction = Blocked(),
) -> Float[Array, " m"]:
    r"""$\log\sum_j w_j e^{q_i\cdot k_j}$ for each query.

    Args:
        queries: $q$, (m, k).
        keys: $k$, (n, k).
        log_weights: $\log w$, (n,); by default all weights are one. A key with
            $-\infty$ is excluded.
        reduction: how sums are evaluated; see `plan`.

    Raises:
        InvalidInputError: if shapes do not fit.

    Examples:
        >>> from meanfield import sums
        >>> print(sums.log_sum_exp([[0.0], [1.0]], [[0.0], [1.0]]))  # log 2, log(1 + e)
        [0.6931 1.3133]
    """
    q, side = _sides(queries, keys, None, log_weights)
    return reduction.log_mean(_inner(q.x.shape[1]), q, side)[1]


def tilted_mean(
    queries: Numbers,
    keys: Numbers,
    values: Numbers,
    log_weights: Numbers | None = None,
    *,
    reduction: AbstractReduction = Blocked(),
) -> Float[Array, "m p"]:
    r"""$\sum_j w_j e^{q_i\cdot k_j} v_j / \sum_j w_j e^{q_i\cdot k_j}$ for each query.

    If the queries include the scale, this is the output of softmax attention.

    Args:
        queries: $q$, (m, k).
        keys: $k$, (n, k).
        values: $v$, (n, p).
        log_weights: $\log w$, (n,); by default all weights are one. A key with
            $-\infty$ is excluded.
        reduction: how sums are evaluated; see `plan`.

    Raises:
        InvalidInputError: if shapes do not fit.

    Examples:
        >>> from meanfield import sums
        >>> mean = sums.tilted_mean([[0.0], [1.0]], [[0.0], [1.0]], [[0.0], [1.0]])
        >>> print(mean.ravel())
        [0.5    0.7311]
    """
    q, side = _sides(queries, keys, values, log_weights)
    return reduction.log_mean(_inner(q.x.shape[1]), q, side)[0]


def _sides(
    queries: Numbers, keys: Numbers, values: Numbers | None, log_weights: Numbers | None
) -> tuple[Tokens, Keys]:
    q, k = vectors("queries", queries), vectors("keys", keys)
    if q.shape[1] != k.shape[1]:
        raise InvalidInputError(
            "`queries` and `keys` must have the same number of columns; got "
            f"{q.shape[1]} and {k.shape[1]}."
        )
    _check_overflow(q, k)
    v = jnp.zeros((len(k), 0), k.dtype) if values is None else vectors("values", values)
    logs = logs_of(log_weights, k)
    if len(v) != len(k):
        raise InvalidInputError(
            f"`values` must have one row for each of the {len(k)} keys; got {len(v)} "
            "rows."
        )
    return Tokens(q), Keys(Tokens(k), logs, v)


def _check_overflow(q: Float[Array, "m k"], k: Float[Array, "n k"]) -> None:
    """Raises if concrete vectors are so large that inner products may overflow."""
    if not (is_concrete(q) and is_concrete(k)):
        return
    sizes = [float(np.abs(np.asarray(x)).max()) for x in (q, k)]
    if q.shape[1] * sizes[0] * sizes[1] > float(jnp.finfo(q.dtype).max):
        raise InvalidInputError(
            f"`queries` (entries up to {sizes[0]:.3g}) and `keys` (entries up to "
            f"{sizes[1]:.3g}) are so large that their inner products may exceed the "
            f"largest {q.dtype}. Scale both down."
        )


def vectors(name: str, x: Numbers) -> Float[Array, "n k"]:
    """The argument `name` as a matrix with a vector in each row.

    Raises:
        InvalidInputError: if the argument is not a matrix, or is empty.
    """
    rows = float_array(name, x)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InvalidInputError(
            f"`{name}` must be a non-empty matrix with a vector in each row; got shape "
            f"{np.shape(x)}."
        )
    return rows


def logs_of(log_weights: Numbers | None, keys: Float[Array, "n k"]) -> Array:
    """Log weights of the keys, which by default are zero.

    Raises:
        InvalidInputError: if there is not one log weight for each key, or if one is NaN
            or plus infinity.
    """
    if log_weights is None:
        return jnp.zeros(len(keys), keys.dtype)
    logs = jnp.asarray(real_array("log_weights", log_weights), keys.dtype)
    if logs.shape != (len(keys),):
        raise InvalidInputError(
            f"`log_weights` must hold one number for each of the {len(keys)} keys; got "
            f"shape {logs.shape}."
        )
    if is_concrete(logs) and not np.all(np.asarray(logs) < np.inf):  # true for NaN, too
        raise InvalidInputError(
            "Each of the `log_weights` must be a finite number, or minus infinity; got "
            "NaN or infinity."
        )
    return logs


def _inner(k: int) -> Dot:
    """The score that is the inner product of vectors of dimension `k`."""
    return Dot(jnp.eye(k), jnp.eye(k))
