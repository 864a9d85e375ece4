"""Optimality conditions of minimising movements."""

from meanfield import energies
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems.library import energies as lib
from meanfield.theorems.library.attentions import gaussian
from meanfield.theorems.reference import energies as ref
from meanfield.tokens import Tokens

READING = (
    "Eqs. (5.4)–(5.7) are taken as the optimality conditions of a minimising movement, "
    "in this order: its end, then the velocity."
)
NEWTON = Slack(
    tolerance=1e-9,
    why="the implicit step ends with a Newton step: 1e-8 squared, over τ, and rounding",
)


@statement(
    "castin2025:eq-5.5",
    source="eq. (5.5), §5.1",
    claim=r"At the end of a minimising movement $2\,\delta F(\mu_\tau) + \psi_\tau$ is "
    r"constant, where $\frac12\nabla\psi$ is the velocity of the optimal path.",
    hypotheses=r"$D = W_2$; Gaussians, on which $\delta F$ is quadratic",
    remark=READING,
    control=(r"$\delta F$ lacks its factor 2", {"factor": 1.0}),
)
def end_condition(case: Case, *, factor: float = 2.0) -> Checks:
    r"""Compares ψ of the library's implicit steps with its first variation at probes.

    The energy is a Sinkhorn energy with non-symmetric scores, plus a quadratic
    potential, in space. NumPy computes $\psi_\tau$ from the optimal
    map between the start and the end of a step, which moves tokens along straight
    lines.
    """
    d, tau, rng = 3, 0.3, case.rng("step")
    Q, K = rng.normal(size=(2, 2, d)) / 2
    H, c = jnp.asarray(lib.spd(rng, d)), jnp.asarray(rng.normal(size=d))
    energy = energies.SinkhornEnergy(Q, K, 0.7) + energies.QuadraticPotential(H, c)
    mean, Y = rng.normal(size=d), np.linalg.cholesky(lib.spd(rng, d))
    end = energies.jko_step(energy, gaussian(mean, Y), tau)
    alpha, Sigma = np.asarray(end.mean), np.asarray(end.covariance)
    z = rng.normal(size=(12, d))
    # The map back to the start is $M$, where $M\Sigma M$ is the covariance there.
    M = np.linalg.solve(Sigma, ref.matrix_root(Y @ Y.T @ Sigma).T).T
    squares = np.sum((z @ (np.eye(d) - M)) * z, axis=1)
    psi = (squares + 2 * z @ (alpha - mean)) / tau
    level = np.asarray(energy.first_variation(end, Tokens(jnp.asarray(alpha + z))))
    fluctuation = lambda values: values - np.mean(values)
    yield gap("ψ = −2δF", -factor * fluctuation(level), fluctuation(psi), **NEWTON)


@statement(
    "castin2025:eq-5.6",
    source="eq. (5.6), §5.1",
    claim=r"The velocity of the optimal path is $v = \frac12G(\nabla\psi)$, which is "
    r"$\frac12\nabla\psi$ for $W_2$: it minimises $\int (G^{-1}(v) - \nabla\psi) \cdot "
    r"v \, d\mu$.",
    hypotheses=r"$G(v) = v$, or $G(v) = Bv / \int e^{s(x, y)} d\mu(y)$, $B \succ 0$",
    remark=READING,
    control=(r"the velocity lacks its factor $\frac12$", {"factor": 1.0}),
)
def optimal_velocity(case: Case, *, factor: float = 0.5) -> Checks:
    r"""Checks that the library's velocities are stationary for a Lagrangian in NumPy.

    The velocities are those of the library's flow of the energy
    $-\frac12\int\psi d\mu$, for a quadratic ψ, tokens in the plane, and both metrics.
    Scores and $B$ are not diagonal, and scores are not symmetric. Complex steps
    differentiate the Lagrangian in every velocity; derivatives are relative to
    $\nabla\psi$.
    """
    rng = case.rng("tokens")
    s, B, H, c = lib.setting(rng), lib.spd(rng, 2), lib.spd(rng, 2), rng.normal(size=2)
    mass = np.exp(ref.bilinear(s.scaled_A)(s.x, s.x)) @ s.w
    score = Dot(jnp.asarray(s.Q), jnp.asarray(s.K), jnp.asarray(s.epsilon))
    metrics: dict[str, tuple[energies.AbstractMetric, Array, Array]] = {
        "W₂": (energies.Wasserstein(), np.eye(2), np.ones(len(s.w))),
        "twisted": (energies.TwistedMetric(score, jnp.asarray(B)), B, mass),
    }
    momenta = (s.x - c) @ H
    for name, (metric, matrix, masses) in metrics.items():
        down = lib.evaluate_potential(-factor * H, c, x=s.x, w=s.w, metric=metric)[2]

        def lagrangian(
            v: Array, matrix: Array = matrix, masses: Array = masses
        ) -> Array:
            costs = masses * np.sum(np.linalg.solve(matrix, v.T).T * v, axis=1)
            return s.w @ (costs - np.sum(momenta * v, axis=1))

        slope = ref.gradient(lagrangian, down) / s.w[:, None]
        size = float(np.max(np.abs(momenta)))
        label = f"derivative of the Lagrangian, {name}"
        yield gap(label, slope, 0 * slope, scale=size, **lib.ROUNDING_SLACK)
