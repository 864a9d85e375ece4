"""Gaussians under sliced attention: growth of flows."""

from functools import partial

from meanfield._typing import PRNGKey
from meanfield.attention import attentions
from meanfield.flows import flow
from meanfield.theorems._arrays import JaxArray, jax, jnp, np
from meanfield.theorems._ascents import ascend
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import close
from meanfield.theorems.library import ensembles as lib

from ._ranks import attention, closed_form, draw_problem

SLICES, TAU = 3, 0.8


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
    """Searches for violations of the bound on |Σ'| by gradient ascent.

    The ascent differentiates the library's affine field in the plane, with the two axes
    as slices. It starts from matrices with entries of order e. A flow by the library in
    d = 3, with τ = 0.8, must reach time three. The flow's velocity at the mean is
    compared with Vα, and its covariances with Grönwall's exponential.
    """
    problem = draw_problem(case.rng("flow"), (3, 2, 2), SLICES)
    _, middle = closed_form(problem, TAU)
    yield ascend(case, "|Σ'|", partial(_log_ratio, "esp"), _start)
    yield close("α'", middle, problem.p.V @ problem.law.mean)
    # The flow must reach time three with covariances below Grönwall's bound.
    ts, Sigma = np.linspace(0, 3, 6), problem.law.covariance
    run = flow(attention(problem, TAU), problem.law.gaussian, ts)
    size = lambda M: np.linalg.norm(M, 2, axis=(-2, -1))
    Y = np.asarray(run.coordinates[1])
    growth_bound = size(Sigma) * np.exp(2 * size(problem.p.V) * ts)
    yield lib.early_endings(run.code)
    ratio = size(Y @ np.swapaxes(Y, 1, 2)) / growth_bound
    yield lib.gronwall(ratio, lib.STEP * int(run.n_accepted) * 10)


@bound.register_control("softmax instead, whose linear part is not normalised")
def _(case: Case) -> Checks:
    ratio = partial(_log_ratio, "softmax")
    yield lib.largest_random_ratio(case.key("softmax"), "|Σ'|, softmax", ratio, _start)


def _log_ratio(name: str, parameters: dict[str, JaxArray]) -> JaxArray:
    r"""Logarithm of $|\Sigma'|/2|V||\Sigma|$, from the library's field."""
    Q, K, V, Y = (parameters[part] for part in "QKVY")
    Sigma = Y @ Y.T
    field = lib.centred_field(attentions[name](Q, K, V), Y)
    rate = lib.norm(field.covariance_rate(Sigma))
    return jnp.log(rate / (2 * lib.norm(V) * lib.norm(Sigma)))


def _start(key: PRNGKey) -> dict[str, JaxArray]:
    return lib.plane_matrices(jax.random.split(key, 8))
