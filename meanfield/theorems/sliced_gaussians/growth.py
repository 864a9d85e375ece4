"""Gaussians under sliced attention: how far flows grow."""

from meanfield._typing import PRNGKey
from meanfield.attention import attentions
from meanfield.endings import Status
from meanfield.fields import Affine
from meanfield.flows import flow
from meanfield.measures import Gaussian
from meanfield.theorems._arrays import JaxArray, eqx, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import ascend, bounded, close
from meanfield.theorems.library.ensembles import STEP, spectrum

from ._ranks import attention, closed_form, drawn

SLICES, TAU = 3, 0.8
ENDING = "an ending is counted: nothing is added"
STEPPED = "equality at t = 0; later steps of 4e-10, amplified tenfold"


@statement(
    "new:N2-global",
    source="ERRATA, N2",
    claim=r"$|\Sigma'| \leq 2|V||\Sigma|$ and $\alpha' = V\alpha$: the flow of "
    r"Gaussians under sliced attention is global.",
    hypotheses=r"any Q, K, V, Σ, slices and τ",
    remark=r"$L\Sigma = \sum_l\sigma_lYa_lb_l^\top Y^\top$ with unit vectors "
    r"$a_l \propto Y^\top K^\top\theta_l$ and $b_l \propto Y^\top Q^\top\theta_l$.",
)
def bound(case: Case) -> Checks:
    """Adam ascends the ratio through the library's affine field, in the plane.

    On the two axes, from matrices of sizes about e. A library flow in d = 3 to time
    three, with τ = 0.8: its mean velocity, Grönwall's exponential, its ending.
    """
    at = drawn(case.rng("flow"), (3, 2, 2), SLICES)
    _, middle = closed_form(at, TAU)
    yield ascend(case, "|Σ'|", _sliced_ratio, _start)
    yield close("α'", middle, at.p.V @ at.law.mean)
    # How a flow to time three ends, and its covariances beside Grönwall's bound.
    ts, Sigma = np.linspace(0, 3, 6), at.law.covariance
    run = flow(attention(at, TAU), at.law.gaussian, ts)
    size = lambda M: np.linalg.norm(M, 2, axis=(-2, -1))
    Y = np.asarray(run.coordinates[1])
    reached = size(Y @ np.swapaxes(Y, 1, 2))
    allowed = size(Sigma) * np.exp(2 * size(at.p.V) * ts)
    early, over = int(run.code) != Status.FINISHED, np.max(reached / allowed)
    slack = {"tolerance": STEP * int(run.n_accepted) * 10, "why": STEPPED}
    yield bounded("flows that end early", early, "<=", 0, why=ENDING)
    yield bounded("|Σ(t)| over Grönwall's bound", over, "<=", 1, **slack)


@bound.refuted_by("softmax instead, whose slopes no spread divides")
def _(case: Case) -> Checks:
    starts = jax.vmap(_start)(jax.random.split(case.key("softmax"), 100))
    ratios = eqx.filter_jit(jax.vmap(lambda at: _log_ratio("softmax", at)))(starts)
    top = float(np.exp(np.max(ratios)))
    why = "the ratio at random draws needs no ascent to pass one"
    yield bounded("|Σ'|, softmax", top, "<=", 1, tolerance=1e-9, why=why)


def _sliced_ratio(at: dict[str, JaxArray]) -> JaxArray:
    return _log_ratio("esp", at)


def _log_ratio(name: str, at: dict[str, JaxArray]) -> JaxArray:
    r"""$|\Sigma'|/2|V||\Sigma|$, logarithm, by the library's field."""
    made = attentions[name](at["Q"], at["K"], at["V"])
    field = made.field(0.0, Gaussian(jnp.zeros(2), at["Y"]))
    assert isinstance(field, Affine)
    Sigma = at["Y"] @ at["Y"].T
    norm = lambda M: jnp.sqrt(spectrum(M)[1])
    rate = norm(field.covariance_rate(Sigma))
    return jnp.log(rate / (2 * norm(at["V"]) * norm(Sigma)))


def _start(key: PRNGKey) -> dict[str, JaxArray]:
    """Matrices of sizes from e⁻¹ to e³."""
    keys = jax.random.split(key, 8)
    draw = lambda i: (
        jnp.exp(1 + jax.random.normal(keys[i], ()))
        * jax.random.normal(keys[i + 4], (2, 2))
    )
    return {name: draw(i) for i, name in enumerate("QKVY")}
