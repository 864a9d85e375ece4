"""Sparse Sinkhorn attention: number of stored scores."""

import math
from collections.abc import Callable

from meanfield.theorems._arrays import np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, order
from meanfield.theorems.library import sequences as seq

LENGTH, BLOCKS = 1024, 64
B = LENGTH // BLOCKS
DIGITS = Slack(tolerance=0.05, why="one decimal is claimed")


def _local_pairs(blocks: int) -> int:
    """Number of pairs that the library scores in the first `blocks` blocks.

    Blocks stay in their own order, so that each column belongs to one token.
    """
    x, p = np.random.default_rng(0).normal(size=(LENGTH, 1)), seq.zero_scores(1)
    weights = seq.weights("sparse-sinkhorn", p, x, order=np.arange(BLOCKS))
    return int(np.count_nonzero(weights[: blocks * B]))


@statement(
    "tay2020:sec-4-memory",
    source="§4",
    claim=r"At $\ell = 1024$ and $N_B = 64$, so $B = 16$, sparse attention stores "
    r"$N_BB^2 + N_B^2 = 20480$ scores, fewer than $\ell^2$ by a factor of 51.2.",
    control=("only the pairs of one block are counted", {"blocks": 1}),
)
def memory(_: Case, *, blocks: int = BLOCKS) -> Checks:
    """Compares the number of scores that the library stores with a formula.

    Nonzero entries of the library's matrix are counted, and the entries of the sorting
    matrix are added.
    """
    # The control changes `blocks`, the number of blocks whose pairs are counted.
    actual, expected = _local_pairs(blocks) + BLOCKS**2, BLOCKS * B**2 + BLOCKS**2
    yield compare("scores stored", actual, "=", expected, why="a count")
    yield compare("factor", LENGTH**2 / actual, "=", 51.2, **DIGITS)


@memory.register_misprint(
    "T9",
    claim=r"A factor of 240, which is $\ell^2/(B^2 + N_B^2)$; the formula of §4, "
    r"with $(\ell/N_B)^2$ in place of $N_B^2$, would give 2048.",
    correction=r"$B^2$ are the pairs of one block of $N_B$: the factor is 51.2.",
    counterexample="1024 tokens in 64 blocks",
)
def _(_: Case) -> Counterexample:
    saving = lambda count: LENGTH**2 / count
    true = saving(_local_pairs(BLOCKS) + BLOCKS**2)
    claim = lambda value: compare("factor", true, "=", value, **DIGITS)
    return Counterexample(
        (
            claim(saving(B**2 + BLOCKS**2)),
            claim(saving(B**2 + (LENGTH // BLOCKS) ** 2)),
        ),
        (claim(51.2),),
    )


Cut = Callable[[int], int]
SIZES = (2**10, 2**12, 2**14, 2**16)
BUDGET = 64


def _order(lengths: tuple[int, ...], blocks: Cut) -> Check:
    """Checks the order in ℓ of the number of scores, with a budget of 64 tokens."""
    counts = [length * BUDGET + blocks(length) ** 2 for length in lengths]
    return order("order in ℓ", lengths, counts, 1, names=("ℓ", "scores"))


@statement(
    "tay2020:sec-4-sortcut",
    source="§4",
    claim=r"SortCut, which stores $\ell N_k + N_B^2$ scores for a budget of $N_k$ "
    r"tokens, is linear in $\ell$.",
    hypotheses=r"$N_B = O(\sqrt\ell)$",
    control=(
        "blocks have one token, whatever the length",
        {"blocks": lambda length: length},
        ("order in ℓ",),
    ),
)
def sortcut(_: Case, *, blocks: Cut = math.isqrt) -> Checks:
    """Measures the growth of SortCut's scores in ℓ, and counts the library's scores.

    The order is measured from 2¹⁰ to 2¹⁶ tokens, with a budget of 64. The count is the
    number of nonzero entries of the library's matrix, for 64 tokens in 8 blocks.
    """
    x, p = np.random.default_rng(0).normal(size=(64, 1)), seq.zero_scores(1)
    weights = seq.weights("sortcut", p, x, order=np.arange(8), budget=2)
    ratio = np.count_nonzero(weights) / 1024
    yield compare("scores of 64 tokens over ℓN_k", ratio, "=", 1)
    yield _order(SIZES, blocks)


@sortcut.register_misprint(
    "T10",
    claim=r"It is $O(\ell)$, whatever $N_B$.",
    correction=r"If $N_B = O(\sqrt\ell)$: at $\ell = 1024$ and $N_B = 64$ already "
    r"$N_B^2 = 4\ell$.",
    counterexample="blocks of 16 tokens, so that N_B = ℓ/16",
)
def _(_: Case) -> Counterexample:
    far = (2**18, 2**20, 2**22, 2**24)
    printed = _order(far, lambda length: length // 16)
    return Counterexample((printed,), (_order(far, math.isqrt),))
