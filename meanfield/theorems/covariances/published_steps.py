"""The published Euler steps of covariances, and their cone."""

from typing import NamedTuple

from meanfield.attention import attentions
from meanfield.dynamics import stack_trees
from meanfield.endings import Status
from meanfield.theorems._arrays import Array, Unary, columns, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare, gap, order, zero_count
from meanfield.theorems.library.gaussian_flows import moments
from meanfield.theorems.library.measures import eigenpairs, families

from .clipped_euler import ClippedEuler, Rule, clipped_euler

FLOOR, LIMIT, FRAMES = 1e-14, 50_000, 80
BOUND, REST, END = 1e3, 1e-4, 0.4
ROUNDING = Slack(
    tolerance=1e-9,
    why="rounding 1e-16 of each of 1e4 steps, grown a thousandfold up to the bound",
)


@statement(
    "castin2025:sec-4.5-euler",
    source="§4.5, numerical scheme",
    claim=r"$\Sigma_{k+1} = \Sigma_k + \tau g(\Sigma_k)$ is of first order, and $(a - "
    r"b, 2c, a + b)$ sends positive semidefinite matrices to $z \geq \sqrt{x^2 + "
    r"y^2}$: $z \mp \sqrt{x^2 + y^2} = 2\lambda_\mp$.",
    hypotheses=r"$d = 2$, off-diagonal entry $c$",
    # Two checks are missing from the labels, since the control can pass them. In the
    # check of the order, the error of long steps hides a wrong limit. Clipped members
    # end at the same floor whatever A is.
    control=(
        "A is transposed in the references; c is not doubled",
        {"turn": np.transpose, "twice": 1},
        ("members that end otherwise, …", "where they end", "height over the …"),
    ),
)
def euler(case: Case, *, turn: Unary = lambda A: A, twice: float = 2) -> Checks:
    """Compares the library's clipped Euler steps with DOP853 and with a NumPy loop.

    For V that does not commute with Σ, the order of the error at t = 0.4 is measured
    against DOP853 as the step is halved. Every ending, number of steps and final
    covariance is compared with a NumPy loop, also for clipped members. For 1000
    matrices and all frames, heights over the cone are compared with eigenvalues. The
    library's eigenpairs in d = 2 and 3 and its families of covariances are checked too.
    """
    yield from _steps(case, turn=turn)
    # The heights $z \mp \sqrt{x^2 + y^2}$ must be twice the eigenvalues.
    B = case.rng("cone").normal(size=(case.pick(1000, 4000), 2, 2))
    frames = np.asarray(_library_run(_family(case)).covariances)
    covariances = np.concatenate([B @ np.swapaxes(B, 1, 2), frames.reshape(-1, 2, 2)])
    a, b, c = (covariances[:, i, j] for i, j in ((0, 0), (1, 1), (0, 1)))
    radius = np.hypot(a - b, twice * c)
    heights = np.stack([a + b - radius, a + b + radius], axis=1)
    expected = 2 * np.linalg.eigvalsh(covariances)
    worst = np.max(np.abs(heights - expected) / (a + b)[:, None])
    why = "rounding of eigenvalues over the trace: at most 1e3 units in the last place"
    label = "height over the cone against eigenvalues"
    yield compare(label, worst, "<=", 0, tolerance=1e-12, why=why)
    yield from eigenpairs(case)
    yield from families(case)


class _Family(NamedTuple):
    """Members with equal step length; a larger value matrix acts like a longer step."""

    Q: Array
    K: Array
    V: Array
    covariances: Array
    dt: float
    counts: Array  # numbers of steps to time `END` for the members that test the order
    value: Array  # the value matrix before scaling


def _family(case: Case) -> _Family:
    """Four growing members with halved steps, one decaying and two clipped members."""
    rng = case.rng("family")
    edges = np.unique(np.geomspace(1, LIMIT, FRAMES).astype(int))
    counts = np.array([edges[edges >= n][0] for n in (50, 100, 200, 400)])
    K, turn = 0.2 * rng.normal(size=(2, 2)) + np.eye(2), np.array([[0, 1], [-1, 0]])
    value = np.eye(2) + 0.4 * turn + 0.1 * rng.normal(size=(2, 2))
    A = 0.5 * np.eye(2) + 0.2 * turn + 0.1 * rng.normal(size=(2, 2))
    Q = np.linalg.solve(K.T, A)
    B = rng.normal(size=(2, 2))
    start = B @ B.T / 4 + 0.3 * np.eye(2)
    start /= np.trace(start)
    scales = np.concatenate([counts[0] / counts, [-5.0, -500.0, -800.0]])
    Q, K, starts = columns([(Q, K, start)] * len(scales))
    V = scales[:, None, None] * value
    return _Family(Q, K, V, starts, END / counts[0], counts, value)


def _library_run(family: _Family) -> ClippedEuler:
    """Result of the library's clipped Euler procedure for the family."""
    dynamics = stack_trees(list(map(attentions["softmax"], *family[:3])))
    rule = Rule(family.dt, REST, BOUND)
    run = clipped_euler(dynamics, jnp.asarray(family.covariances), rule, FRAMES, axis=0)
    return jax.tree.map(np.asarray, run)


def _member(V: Array, A: Array, Sigma: Array, dt: float) -> tuple:
    """Computes the flow of a member in NumPy.

    Each step adds the rate times `dt`, clips the eigenvalues from below, and then tests
    both thresholds.
    """
    for n in range(1, LIMIT + 1):
        rate = V @ Sigma @ A @ Sigma + Sigma @ A.T @ Sigma @ V.T
        values, U = np.linalg.eigh(Sigma + dt * rate)
        Sigma = (U * np.maximum(values, FLOOR)) @ U.T
        if np.linalg.norm(rate) < REST:
            return Sigma, n, int(Status.STEADY)
        if np.trace(Sigma) > BOUND:
            return Sigma, n, int(Status.BLOW_UP)
    return Sigma, LIMIT, int(Status.MAX_STEPS)


def _steps(case: Case, *, turn: Unary) -> Checks:
    """Compares the library's steps with references, in which `turn(A)` replaces A."""
    family = _family(case)
    A = turn(family.K[0].T @ family.Q[0])
    run = _library_run(family)
    members = zip(family.V, family.covariances, strict=True)
    final, n_steps, code = columns(_member(V, A, S, family.dt) for V, S in members)
    n_mismatches = int(np.sum(n_steps != run.n_steps) + np.sum(code != run.code))
    least_values = [np.linalg.eigvalsh(S[-2:])[:, 0] for S in (run.final, final)]
    why = "rounding 1e-16 of entries below one over the floor 1e-14"
    floor_label = "least eigenvalue of those clipped"
    # The order is measured by comparison with DOP853, for four step lengths.
    start = np.linalg.cholesky(family.covariances[0])
    times = np.array([0.0, END])
    exact = moments([(family.value, A)], (np.zeros(2), start), times)[1][-1]
    ends = run.covariances[np.arange(4), np.searchsorted(run.steps, family.counts)]
    errors = np.max(np.abs(ends - exact), axis=(1, 2))
    sizes = END / family.counts
    yield order("error at t = 0.4", sizes, errors, 1.0, names=("τ", "error"))
    yield zero_count("members that end otherwise, or after other steps", n_mismatches)
    yield gap("where they end", run.final, final, **ROUNDING)
    yield gap(floor_label, *least_values, tolerance=0.1, why=why, scale=FLOOR)
