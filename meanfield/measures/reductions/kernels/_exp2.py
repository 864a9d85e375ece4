r"""The power $2^x$, computed by a polynomial.

Sums over tokens spend most of their time in this function. With $x = k + f$, $k$ an
integer and $|f| \le \tfrac12$, a polynomial gives $2^f$, and $2^k$ is built from
exponent bits. The code has no branches, so the compiler vectorises it fully, and it is
faster than XLA's `exp` on a CPU.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

LOG2E = 1.4426950408889634  # converts to powers of two: e^s = 2^(s LOG2E)
LN2 = 0.6931471805599453

# Chebyshev series of 2^f on [-1/2, 1/2], truncated at degrees 6 and 11, have relative
# errors of 3e-9 and 4e-18.
SINGLE_COEFFICIENTS = (
    0.9999999999595482, 0.6931472067106199, 0.2402265121359523, 0.05550327214209201,
    0.009618025602955837, 0.0013400432165385696, 0.00015469731977475548,
)  # fmt: skip
DOUBLE_COEFFICIENTS = (
    1.0, 0.6931471805599453, 0.24022650695910158, 0.0555041086648217,
    0.009618129107587253, 0.001333355814639035, 0.00015403530463727982,
    1.5252733856295574e-05, 1.3215432534254118e-06, 1.0178051192117847e-07,
    7.074194562613105e-09, 4.456675463639861e-10,
)  # fmt: skip


@jax.custom_jvp
def exp2(x: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""The power $2^x$, accurate to a few units in the last place.

    The result is never below the smallest normal number, even at $-\infty$, so that
    excluded terms also need a weight of zero. Where $2^x$ exceeds the largest number,
    the result is meaningless: bound `x` first.
    """
    single = x.dtype == jnp.float32
    bits = np.int32 if single else np.int64
    info = jnp.finfo(x.dtype)
    x = jnp.maximum(x, jnp.asarray(info.minexp, x.dtype))
    # Adding and subtracting 1.5 * 2^nmant also rounds, but compilers may drop both.
    whole = jnp.round(x)
    f = x - whole
    *lower, top = SINGLE_COEFFICIENTS if single else DOUBLE_COEFFICIENTS
    power = jnp.full_like(f, top)
    for coefficient in reversed(lower):
        power = power * f + jnp.asarray(coefficient, x.dtype)
    exponent = (whole.astype(bits) + (info.maxexp - 1)) << info.nmant
    # JAX ignores the rule below in second derivatives through a loop. It differentiates
    # this product instead, which it could not do with a sum of bits.
    return power * jax.lax.bitcast_convert_type(exponent, x.dtype)


@exp2.defjvp
def _(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    power = exp2(*primals)
    return power, power * (LN2 * tangents[0])
