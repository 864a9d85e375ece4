r"""Velocities as directions and logarithms of speeds, for speeds such as $e^{-700}$."""

import functools
from typing import NamedTuple, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.attention import Attention, Pointwise, Softmax
from meanfield.errors import UnsupportedError
from meanfield.measures import Points, exponential

ROUNDINGS = 8  # a tangential part below this many eps of the whole is rounding


class LogVelocities(NamedTuple):
    r"""Velocities $v_i = e^{\ell_i} u_i$ of tokens.

    Attributes:
        directions: $u_i$, of length about one; zero for tokens at rest.
        logs: $\ell_i$; $-\infty$ for tokens at rest.

    Examples:
        >>> from meanfield.flows import LogVelocities
        >>> LogVelocities._fields
        ('directions', 'logs')
    """

    directions: Float[Array, "n d"]
    logs: Float[Array, " n"]


def has_log_velocities(dynamics: object) -> TypeGuard[Attention]:
    """Whether `log_velocities` is defined: for one attention, softmax or exp."""
    if not isinstance(dynamics, Attention):
        return False
    coupling = dynamics.coupling
    is_exp = isinstance(coupling, Pointwise) and coupling.link is exponential
    return isinstance(coupling, Softmax) or is_exp


def log_velocities(attention: Attention, mu: Points) -> LogVelocities:
    r"""Velocities of the tokens of a measure in its space, without underflow.

    The velocity of a token is $\sum_j \kappa_{ij} P V(x_j - x_i) + \sum_j\kappa_{ij}\,
    P V x_i$, where $P$ projects to the tangent space at $x_i$. On a sphere with a
    multiple of the identity as $V$ the last term vanishes, and what remains can be
    exponentially small. The weights stay logarithms until the largest is taken out.
    Tokens at the position of $x_i$ do not move it.

    Raises:
        UnsupportedError: if the attention is neither softmax nor exp.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.flows import log_velocities
        >>> from meanfield.spaces import Sphere
        >>> one = jnp.eye(2)
        >>> softmax = attentions["softmax"](one, one, one, epsilon=1e-3)
        >>> mu = Points.uniform(one, space=Sphere())
        >>> print(log_velocities(softmax, mu).logs)
        [-1000. -1000.]
    """
    if not has_log_velocities(attention):
        raise UnsupportedError(
            "Logarithms of velocities are known for one attention, `softmax` or `exp`; "
            f"got {type(attention).__name__}."
        )
    return _log_velocities(attention, mu)


@eqx.filter_jit
def _log_velocities(attention: Attention, mu: Points) -> LogVelocities:
    tokens = mu.safe_tokens
    logs = attention.score(tokens, tokens) + mu.log_weights[None, :]
    if isinstance(attention.coupling, Softmax):
        total = jax.nn.logsumexp(logs, axis=1, keepdims=True)
        logs = logs - jnp.where(jnp.isneginf(total), 0, total)
    row = functools.partial(_velocity, attention, mu)
    return LogVelocities(*jax.lax.map(row, (tokens.x, logs)))


def _velocity(
    attention: Attention,
    mu: Points,
    row: tuple[Float[Array, " d"], Float[Array, " n"]],
) -> tuple[Float[Array, " d"], Float[Array, ""]]:
    """The direction and the log speed of a token, given its state and log weights."""
    x, logs = row[0][None, :], row[1]
    differences = mu.safe_tokens.x - x
    parts = [_tangents(attention, mu, x, y) for y in (differences, x)]
    vectors = jnp.concatenate(parts)
    logs = jnp.append(logs, jax.nn.logsumexp(logs))
    lengths = jnp.linalg.norm(vectors, axis=1)
    is_moving = lengths > 0
    logs = jnp.where(
        is_moving, logs + jnp.log(jnp.where(is_moving, lengths, 1)), -jnp.inf
    )
    largest = jnp.max(logs)
    shares = jnp.exp(logs - jnp.where(jnp.isneginf(largest), 0, largest))
    direction = shares @ (vectors / jnp.where(is_moving, lengths, 1)[:, None])
    # What is left of terms that cancel is their rounding error.
    rounding = ROUNDINGS * jnp.finfo(x.dtype).eps * jnp.sum(shares)
    is_at_rest = jnp.linalg.norm(direction) <= rounding
    return jnp.where(is_at_rest, 0, direction), jnp.where(is_at_rest, -jnp.inf, largest)


def _tangents(
    attention: Attention, mu: Points, x: Float[Array, "1 d"], y: Float[Array, "n d"]
) -> Float[Array, "n d"]:
    """The tangential parts of `V y` at `x`, without those that are rounding errors."""
    values = y @ attention.value.T
    parts = mu.space.tangent(jnp.broadcast_to(x, values.shape), values)
    rounding = ROUNDINGS * jnp.finfo(y.dtype).eps
    squares = jnp.sum(parts**2, axis=1), jnp.sum(values**2, axis=1)
    is_rounding = squares[0] <= rounding**2 * squares[1]
    return jnp.where(is_rounding[:, None], 0, parts)
