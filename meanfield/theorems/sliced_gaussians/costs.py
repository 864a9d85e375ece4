"""Gaussians under sliced attention: the costs of slices."""

from scipy.special import softmax

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import close
from meanfield.theorems.library import attentions as att

from . import _ranks as ranks

SLICES, TAU = 3, 0.8


@statement(
    "new:N2-cost",
    source="ERRATA, N2",
    claim=r"$D_l = \int|Qx - Ky|^2d\gamma_l \to |(Q - K)\alpha|^2 + \mathrm{tr}\,S_Q + "
    r"\mathrm{tr}\,S_K - 2\frac{\theta_l^\top S_QS_K\theta_l}{s_{Q,l}s_{K,l}}$ with "
    r"$S_Q = Q\Sigma Q^\top$ and $S_K = K\Sigma K^\top$; the shares of slices are "
    r"$\sigma_l \propto e^{-\tau D_l/\epsilon}$.",
    hypotheses=r"tokens of $N(\alpha, \Sigma)$, as for N2",
    control=(
        "the 2 of the last term is dropped",
        {"two": 1.0},
        ("costs of slices", "closed form, τ = 0.8"),
    ),
)
def cost(case: Case, *, two: float = 2.0) -> Checks:
    r"""Two sorts a slice, in NumPy: 32 clouds of 5 000 tokens, and the formula.

    In standard errors from cloud to cloud. With $\tau = 0.8$ and ε = 0.7, the library's
    closed form against slopes weighted by the formula; its velocities of a thousand
    tokens against those weighted by the costs of the sorts.
    """
    at = ranks.drawn(case.rng("costs"), (3, 2, 3), SLICES)
    rng, epsilon = case.rng("costs: clouds"), float(at.p.epsilon)
    exact = ranks.costs(at.p, at.directions, at.law, two)
    draws = ranks.of_clouds(rng, at.law, 5000, case.pick(32, 128))
    means, fewer = (np.stack([_costs(at, x) for x in part]) for part in draws)
    x = draws[0][0][:1000]
    slopes = ranks.slopes(at.p, at.directions, at.law.covariance)
    expected = np.tensordot(softmax(-TAU * exact / epsilon), slopes, 1)
    linear, _ = ranks.closed_form(at, TAU)
    moved = ranks.velocities(at, x, softmax(-TAU * _costs(at, x) / epsilon))
    library = att.velocity(ranks.attention(at, TAU), att.bare(x), att.bare(x))
    yield ranks.score_of_means("costs of slices", means, fewer, exact)
    yield close("closed form, τ = 0.8", linear, at.p.V @ expected)
    yield close("1000 tokens, τ = 0.8", library, moved)


def _costs(at: ranks.Sliced, x: Array) -> Array:
    """The mean of |Qx − Ky|² over the pairs of each slice, by two sorts."""
    p = at.p
    apart = [x @ p.Q.T - ranks.matched(p, u, x) @ p.K.T for u in at.directions]
    return np.mean(np.sum(np.square(apart), axis=2), axis=1)
