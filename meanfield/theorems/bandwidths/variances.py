"""Sinkhorn attention at small bandwidths: variances."""

from meanfield.flows import flow
from meanfield.measures import Gaussian
from meanfield.theorems._arrays import Array, JaxArray, eqx, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import order

from . import _limits as limits


@statement(
    "sander2022:eq-6",
    source="eq. (6), §5",
    claim=r"As $\epsilon \to 0$ the flow tends to $\partial_t\rho = "
    r"\frac12\Delta\rho$: on the line the variance grows at the rate 1.",
    hypotheses=r"$W_V = -W_QW_K < 0$; the linear drift $-W_Vx/\epsilon$ is added",
    control=(
        "the kernel's bandwidth is 2ε, and 1/ε stays",
        {"widening": 2.0},
        ("limit…",),
    ),
)
def variance(case: Case, *, widening: float = 1.0) -> Checks:
    """Compares the variance gained by the library's flow of a Gaussian with its limit.

    The flow under Sinkhorn attention with a linear drift runs to t = 1, at bandwidths
    that are halved repeatedly. The gained variance is extrapolated, and the order of
    its error is measured. For (1 - x²)⁴(1 + 0.6 sin 3x), represented by weighted tokens
    on a grid, the order of the error of the variance's rate is measured.
    """
    # The variance of the density grows at the rate $2\int(x - m)\bar T\,d\mu$.
    x, w, _ = limits.density(240)
    rates = 2 * limits.density_remainder(limits.SCALAR, 240) @ (w * (x - w @ x))
    gains = _growth(case, widening=1.0)
    yield _limit(case, widening=widening, gain=1.0)
    gains, rates = np.abs(gains - 1), np.abs(rates - 1)
    yield order("order of |gain - 1|, Gaussian", limits.BANDWIDTHS, gains, 1.0)
    yield order("order of |rate - 1|, density", limits.WIDER, rates, 1.0)


@variance.register_misprint(
    "S1",
    claim=r"$\partial_t\rho = \Delta\rho$: the variance grows by 2.",
    correction=r"$\partial_t\rho = \frac12\Delta\rho$: it grows by 1.",
    counterexample="a Gaussian on the line, $W_Q = 0.8$, $W_K = 1.3$, $W_V = -1.04$",
)
def _(case: Case) -> Counterexample:
    misprint, correction = (
        _limit(case, widening=1.0, gain=gain) for gain in (2.0, 1.0)
    )
    return Counterexample(misprint=(misprint,), correction=(correction,))


@eqx.filter_jit
def _final_variances(mu: Gaussian, epsilon: JaxArray, widening: JaxArray) -> JaxArray:
    """The variance at t = 1 at each bandwidth."""

    def final_variance(e: JaxArray) -> JaxArray:
        dynamics = limits.remainder(limits.SCALAR, e, widening)
        return flow(dynamics, mu, np.array([0.0, 1.0])).final.covariance[0, 0]

    return eqx.filter_vmap(final_variance)(epsilon)


def _growth(case: Case, *, widening: float) -> Array:
    """Variance that a Gaussian gains by t = 1, at each bandwidth."""
    mean, deviation = case.rng("start").uniform(0.5, 1.0, size=2)
    mu = Gaussian(jnp.asarray([mean]), jnp.asarray([[deviation]]))
    final = _final_variances(mu, jnp.asarray(limits.BANDWIDTHS), jnp.asarray(widening))
    return np.asarray(final) - deviation**2


def _limit(case: Case, *, widening: float, gain: float) -> Check:
    values = _growth(case, widening=widening)
    label = "limit of the variance gained by t = 1"
    # The floor of 1e-7 allows for an error of 4e-10 in each of 40 adaptive steps, which
    # the extrapolation magnifies sixfold.
    return limits.limit_gap(label, values, np.array(gain), floor=1e-7)
