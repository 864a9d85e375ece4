"""Masked attention: discontinuity of the velocity with respect to the measure."""

from meanfield.theorems._arrays import np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import compare, gap, order
from meanfield.theorems.reference.measures import wasserstein

from ._masked import EPSILON, line_sequence, velocities


@statement(
    "castin2025:prop-B.14",
    source="Proposition B.14, §B",
    claim=r"$\mu \mapsto \Gamma_\mu$ is not continuous for $W_2$ on "
    r"$[0,1]\times\mathbb{R}^d$, for masked attention, even with compact supports.",
    remark="C30: the sequences printed in the proof have no limit in $W_2$, and show "
    "only that no modulus of continuity is uniform; atoms whose position tends to s "
    "from above show the discontinuity.",
    control=("at s = 1, where nothing is masked", {"s": 1.0}, ("jump…", "smallest…")),
)
def discontinuity(case: Case, *, s: float = 0.5) -> Checks:
    """Compares the jump of the library's masked field at s = ½ with its closed form.

    The measures have two atoms. The second atom is at position ½ + 1/n, which tends to
    ½. The distance W_2 to the limit, from linear programmes, must be of order 1/n. The
    printed sequence has an atom of mass 1/n at x = n². The jump of the field between
    two measures, one with this atom visible and one with it masked, is measured too.
    """
    gaps = []
    for n in (10, 100, 1000):
        w, x = np.array([0.75 - 1 / n, 1 / n, 0.25]), np.array([0.0, n**2, 0.0])
        visible_line = line_sequence((0, 0, 1.3), x, w, np.array([0.25, 0.5, 0.9]))
        w, positions = np.array([0.75, 1 / n, 0.25 - 1 / n]), np.array([0.25, 1.0, 0.9])
        hidden_line = visible_line._replace(w=w, s=positions)
        gaps.append(
            np.ptp(velocities([visible_line, hidden_line], 0.4, 0.75))
            / (1.3 * n / 0.75)
        )
    yield from _jump(case, s=s)
    label = "printed sequence: jump at s = ¾ over 4n|V|/3"
    why = "rounding of a sum of three terms"
    yield gap(label, gaps, np.ones(3), tolerance=1e-12, why=why)


def _jump(case: Case, *, s: float) -> Checks:
    """Checks the field at (s, 0.3) for two atoms, the second at position ½ + 1/n."""
    rng = case.rng("jump")
    Q, K, V = rng.uniform(0.5, 1.5, size=3)
    x = np.array([rng.uniform(-0.5, 0), rng.uniform(0.5, 1)])
    half, counts = np.full(2, 0.5), (10, 100, 1000)
    limit = line_sequence((Q, K, V), x, half, np.array([0.0, 0.5]))
    lines = [limit._replace(s=np.array([0.0, 0.5 + 1 / n])) for n in counts]
    fields = velocities([*lines, limit], 0.3, s)
    share = 1 / (1 + np.exp(Q * K * 0.3 * (x[0] - x[1]) / EPSILON))
    clouds = [np.stack([line.s, x], axis=1) for line in (*lines, limit)]
    W = [wasserstein(cloud, clouds[-1], weights=(half, half)) for cloud in clouds[:-1]]
    jumps = np.abs(fields[:-1] - fields[-1])
    jump = V * share * (x[1] - x[0])
    label = "jump of the field at n = 10, 100, 1000"
    why = "rounding of a sum of two terms"
    yield gap(label, jumps, np.full(3, jump), tolerance=1e-13, why=why)
    yield compare("smallest jump over W_2", np.min(jumps / W), ">=", 1.0)
    small = 1 / np.array(counts)
    yield order("order of W_2 in 1/n", small, W, 1.0, names=("1/n", "W₂"))
