"""Sinkformers: number of iterations needed."""

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import ORDER_TOLERANCE, close, compare, order
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import sinkhorn as sk
from meanfield.theorems.reference.alternation import nth_state, scalings

N = 16
# The errors of six draws are summed, since the leading term of one can be small.
DRAWS = 6
SMALL = 0.04 * 0.5 ** np.arange(4)  # standard deviations of scores, to fit an order
WHOLE = "orders are integers, and this is a tenth of their spacing"
LARGE = (0.25, 2.0, 8.0)
ENOUGH = 0.001  # largest acceptable deviation of a column sum from one


@statement(
    "sander2022:few-iterations",
    source="Experiments: three to five iterations",
    claim=r"After $\ell$ half-steps, $\ell$ odd, the sums of columns are off by "
    r"$O(s^\ell)$ where scores have deviation $s$. Five leave 0.1 % at most where $s = "
    r"\frac14$, at least 2 % where $s = 2$, and 10 % where $s = 8$.",
    hypotheses=r"16 tokens with normal queries and keys of four coordinates",
    remark="So three to five are enough for scores at the start of training. Scores "
    "grow in training, and five are then far from the limit.",
    control=("two half-steps fewer", {"counts": (1, 3)}, ("order…",)),
)
def few_iterations(case: Case, *, counts: tuple[int, int] = (3, 5)) -> Checks:
    """Measures column sums of the library's matrices after 3 and 5 half-steps.

    For small standard deviations of the scores, the errors of six draws are summed, and
    the power of the standard deviation with which this sum decreases is measured. For
    larger ones, the error of one draw is measured, and its matrix is compared with
    alternating normalisation in NumPy.
    """
    errors = lambda s, k: np.linalg.norm(_columns(case, s, counts, k)[0], axis=1)
    small = [sum(errors(s, k) for k in range(DRAWS)) for s in SMALL]
    large = [_columns(case, s, counts) for s in LARGE]
    names = ("deviation of scores", "error of columns")
    left = [np.max(far[1]) for far, _ in large]
    for n, far in zip((3, 5), np.transpose(small), strict=True):
        order_check = order(f"order after {n} half-steps", SMALL, far, n, names=names)
        yield order_check._replace(tolerance=ORDER_TOLERANCE, why=WHOLE)
    yield from (check for _, check in large)
    yield compare("columns after five, s = 1/4", left[0], "<=", ENOUGH)
    yield compare("columns after five, s = 2", left[1], ">=", 20 * ENOUGH)
    yield compare("columns after five, s = 8", left[2], ">=", 100 * ENOUGH)


def _columns(
    case: Case, s: float, counts: tuple[int, int], draw: int = 0
) -> tuple[Array, Check]:
    """Errors of column sums after half-steps, and a check of the last matrix."""
    # The scores are scaled to have the standard deviation `s`.
    rng = case.rng(f"tokens {draw}")
    p = att.random_parameters(rng, 4, 4)
    cloud = att.uniform_cloud(rng.normal(size=(N, 4)))
    deviation = np.std(sk.scores_of(p, cloud))
    p = p._replace(epsilon=p.epsilon * deviation / s)
    matrices = [np.asarray(K) for K, _ in att.half_steps(p, cloud, cloud, counts)]
    kernel, w = np.exp(sk.scores_of(p, cloud)), cloud.share
    rows, columns = nth_state(scalings(kernel, w, w), counts[1])
    expected = rows[:, None] * kernel * (w * columns)[None, :]
    far = np.abs([K.sum(axis=0) - 1 for K in matrices])
    return far, close(f"matrix, s = {s:g}", matrices[1], expected)
