"""Sparse Sinkhorn attention: how many scores it stores."""

import math
from collections.abc import Callable

from meanfield.theorems._arrays import np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, bounded, order
from meanfield.theorems.library import sequences as seq

LENGTH, BLOCKS = 1024, 64
B = LENGTH // BLOCKS
DIGITS = Slack(tolerance=0.05, why="one decimal is claimed")


def _local(blocks: int) -> int:
    """The pairs that the library's attention scores in that many of all blocks.

    With blocks in their own order and one token to each column of its matrix.
    """
    x = np.random.default_rng(0).normal(size=(LENGTH, 1))
    own = seq.weights("sparse-sinkhorn", seq.idle(1), x, order=np.arange(BLOCKS))
    return int(np.count_nonzero(own[: blocks * B]))


@statement(
    "tay2020:sec-4-memory",
    source="§4",
    claim=r"At $\ell = 1024$ and $N_B = 64$, so $B = 16$, sparse attention stores "
    r"$N_BB^2 + N_B^2 = 20480$ scores, fewer than $\ell^2$ by a factor of 51.2.",
    control=("the pairs of one block alone are counted", {"blocks": 1}),
)
def memory(case: Case, *, blocks: int = BLOCKS) -> Checks:
    """The nonzero entries of the library's matrix, and those of a sorting matrix.

    And the formula.
    """
    # `blocks` are those that are counted.
    del case
    stored, claimed = _local(blocks) + BLOCKS**2, BLOCKS * B**2 + BLOCKS**2
    yield bounded("scores stored", stored, "=", claimed, why="a count")
    yield bounded("factor", LENGTH**2 / stored, "=", 51.2, **DIGITS)


@memory.misprinted(
    "T9",
    printed=r"A factor of 240, which is $\ell^2/(B^2 + N_B^2)$; the formula of §4, "
    r"with $(\ell/N_B)^2$ in place of $N_B^2$, would give 2048.",
    corrected=r"$B^2$ are the pairs of one block of $N_B$: the factor is 51.2.",
    counterexample="1024 tokens in 64 blocks",
)
def _(case: Case) -> Counterexample:
    del case
    saved = lambda stored: LENGTH**2 / stored
    true = saved(_local(BLOCKS) + BLOCKS**2)
    claim = lambda value: bounded("factor", true, "=", value, **DIGITS)
    return Counterexample(
        (claim(saved(B**2 + BLOCKS**2)), claim(saved(B**2 + (LENGTH // BLOCKS) ** 2))),
        (claim(51.2),),
    )


Cut = Callable[[int], int]
SIZES = (2**10, 2**12, 2**14, 2**16)
KEPT = 64


def _order(lengths: tuple[int, ...], blocks: Cut) -> Check:
    """The scores of SortCut, of 64 tokens that are kept, and of its sorting."""
    stored = [length * KEPT + blocks(length) ** 2 for length in lengths]
    return order("order in ℓ", lengths, stored, 1, names=("ℓ", "scores"))


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
def sortcut(case: Case, *, blocks: Cut = math.isqrt) -> Checks:
    """The order of the count from 2¹⁰ to 2¹⁶ tokens, a budget of 64 of them.

    And the count for 64 tokens in 8 blocks, by the entries of the library's matrix.
    """
    del case
    x = np.random.default_rng(0).normal(size=(64, 1))
    own = seq.weights("sortcut", seq.idle(1), x, order=np.arange(8), budget=2)
    yield bounded("scores of 64 tokens over ℓN_k", np.count_nonzero(own) / 1024, "=", 1)
    yield _order(SIZES, blocks)


@sortcut.misprinted(
    "T10",
    printed=r"It is $O(\ell)$, whatever $N_B$.",
    corrected=r"If $N_B = O(\sqrt\ell)$: at $\ell = 1024$ and $N_B = 64$ already "
    r"$N_B^2 = 4\ell$.",
    counterexample="blocks of 16 tokens, so that N_B = ℓ/16",
)
def _(case: Case) -> Counterexample:
    del case
    far = (2**18, 2**20, 2**22, 2**24)
    printed = _order(far, lambda length: length // 16)
    return Counterexample((printed,), (_order(far, math.isqrt),))
