"""Gaussians under sliced attention: the costs of slices."""

from scipy.special import softmax

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import close

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
        {"coefficient": 1.0},
        ("costs of slices", "closed form, τ = 0.8"),
    ),
)
def cost(case: Case, *, coefficient: float = 2.0) -> Checks:
    r"""Compares the costs of slices, for 32 clouds of 5000 tokens, with a closed form.

    NumPy computes the costs by two sorts for each slice. Differences are in standard
    errors over the clouds. With $\tau = 0.8$ and ε = 0.7, the library's closed form is
    compared with linear parts weighted by the formula. The library's velocities of 1000
    tokens are compared with velocities weighted by the costs from these sorts.
    """
    problem = ranks.draw_problem(case.rng("costs"), (3, 2, 3), SLICES)
    rng, epsilon = case.rng("costs: clouds"), float(problem.p.epsilon)
    exact = ranks.costs(problem, coefficient)
    draws = ranks.draw_clouds(rng, problem.law, 5000, case.pick(32, 128))
    means, fewer = (np.stack([_costs(problem, x) for x in part]) for part in draws)
    x = draws[0][0][:1000]
    linear_parts = ranks.linear_parts(problem, problem.law.covariance)
    expected = np.tensordot(softmax(-TAU * exact / epsilon), linear_parts, 1)
    linear, _ = ranks.closed_form(problem, TAU)
    shares = softmax(-TAU * _costs(problem, x) / epsilon)
    velocities = ranks.velocities(problem, x, shares)
    library = ranks.library_velocities(problem, x, TAU)
    yield ranks.score_of_means("costs of slices", means, fewer, exact)
    yield close("closed form, τ = 0.8", linear, problem.p.V @ expected)
    yield close("1000 tokens, τ = 0.8", library, velocities)


def _costs(problem: ranks.SlicedProblem, x: Array) -> Array:
    """Mean of |Qx − Ky|² over the pairs that two sorts match along each slice."""
    p, partners = problem.p, ranks.rank_partners(problem, x)
    differences = [x @ p.Q.T - y @ p.K.T for y in partners]
    return np.mean(np.sum(np.square(differences), axis=2), axis=1)
