"""Sinkformers: how many iterations are enough."""

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import ORDER_TOLERANCE, bounded, close, order
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import sinkhorn as sk
from meanfield.theorems.reference.alternation import after, scalings

N = 16
DRAWS = 6  # of which one alone may have a small leading term
SMALL = 0.04 * 0.5 ** np.arange(4)  # deviations of scores at which an order is measured
WHOLE = "orders are whole numbers, told from their neighbours by ten of this"
LARGE = (0.25, 2.0, 8.0)
ENOUGH = 0.001  # of the sum of a column


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
def few(case: Case, *, counts: tuple[int, int] = (3, 5)) -> Checks:
    """The library's matrices after three and five half-steps, scores scaled.

    Their column sums, by the deviation of the scores: the order, where that is small,
    of six draws together; and the error of one draw, where it is not. Matrices against
    NumPy's alternation.
    """
    errors = lambda s, k: np.linalg.norm(_columns(case, s, counts, k)[0], axis=1)
    small = [sum(errors(s, k) for k in range(DRAWS)) for s in SMALL]
    large = [_columns(case, s, counts) for s in LARGE]
    names = ("deviation of scores", "error of columns")
    left = [np.max(far[1]) for far, _ in large]
    for n, far in zip((3, 5), np.transpose(small), strict=True):
        measured = order(f"order after {n} half-steps", SMALL, far, n, names=names)
        yield measured._replace(tolerance=ORDER_TOLERANCE, why=WHOLE)
    yield from (check for _, check in large)
    yield bounded("columns after five, s = 1/4", left[0], "<=", ENOUGH)
    yield bounded("columns after five, s = 2", left[1], ">=", 20 * ENOUGH)
    yield bounded("columns after five, s = 8", left[2], ">=", 100 * ENOUGH)


def _columns(
    case: Case, s: float, counts: tuple[int, int], draw: int = 0
) -> tuple[Array, Check]:
    """How far each column sum is from one, after each count of half-steps."""
    # Tokens whose scores have this deviation.
    rng = case.rng(f"tokens {draw}")
    p, at = att.generic(rng, 4, 4), att.bare(rng.normal(size=(N, 4)))
    deviation = np.std(sk.scores_of(p, at))
    p = p._replace(epsilon=p.epsilon * deviation / s)
    found = [np.asarray(K) for K, _ in att.half_steps(p, at, at, counts)]
    kernel, w = np.exp(sk.scores_of(p, at)), at.share
    rows, columns = after(scalings(kernel, w, w), counts[1])
    expected = rows[:, None] * kernel * (w * columns)[None, :]
    far = np.abs([K.sum(axis=0) - 1 for K in found])
    return far, close(f"matrix, s = {s:g}", found[1], expected)
