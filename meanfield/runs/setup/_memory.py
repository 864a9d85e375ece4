"""Estimates of the memory that a run needs, checked before anything is allocated."""

import os
from dataclasses import dataclass

from meanfield.errors import ResourceError
from meanfield.spec import RunSpec

SHARE = 0.8  # the fraction of the machine's memory that a run may use
SCORE_BUFFERS = 4  # scores, exponentials, and their copies in a step
MATRICES = 6  # number of d × d matrices that an attention keeps or allocates
FACES = 12  # memory for velocities and fluxes of a grid, relative to its masses
PERCEPTRON_ARRAYS = 2  # intermediate arrays of a perceptron, with a row per token
CONTEXT_COPIES = 10  # peak number of copies of the frames of a moving context
SPLINE_COPIES = 4  # copies of a context's frames kept as spline coefficients
STAGES = 16  # largest number of copies of the state in a Runge–Kutta step


@dataclass(frozen=True)
class Footprint:
    """The quantities that determine the memory of a run.

    Attributes:
        d: the dimension.
        item: bytes per float.
        n_copies: the number of copies of each member's state.
        n_draws: the number of draws.
        n_attentions: the number of attentions with their own matrices, over all
            layers, heads and terms.
        width: the largest number of hidden units of a drift's perceptron.
        is_dense: whether the scores of all pairs are in memory at once.
    """

    d: int
    item: int
    n_copies: int
    n_draws: int
    n_attentions: int
    width: int
    is_dense: bool

    @classmethod
    def from_spec(cls, spec: RunSpec, d: int, frames: int) -> "Footprint":
        """The footprint of a spec in dimension `d`, with `frames` frames."""
        drifts = (spec.drift, *(layer.drift for layer in spec.layers))
        inner = [drift["W1"] for drift in drifts if drift and "W1" in drift]
        widths = [len(W) if isinstance(W, list) else d for W in inner]
        return cls(
            d=d,
            item=8 if spec.precision == "double" else 4,
            n_copies=min(frames, spec.segment + 1) + STAGES,
            n_draws=spec.draws or 1,
            n_attentions=max(len(spec.layers), 1) * spec.heads + len(spec.terms),
            width=max(widths, default=0),
            is_dense=spec.reduction == "dense",
        )

    def check_tokens(self, n: int, *, keys: int) -> None:
        """Checks that `n` tokens and the matrices of the spec fit into memory.

        Args:
            n: the number of tokens; may be 0.
            keys: the number of tokens or cells in the largest context.

        Raises:
            ResourceError: if they do not; the message says how much memory they need,
                how much there is, and what helps.
        """
        room = int(SHARE * physical_memory())
        n_matrices = MATRICES * self.n_attentions * self.n_draws
        matrix_bytes = n_matrices * self.d**2 * self.item
        if matrix_bytes > room:
            raise ResourceError(
                f"Matrices in dimension {self.d} need about "
                f"{format_bytes(matrix_bytes)} of memory, but {_machine()}; lower `d`."
            )
        row = self.d * self.item * self.n_copies * self.n_draws
        row += PERCEPTRON_ARRAYS * self.width * self.item
        if n * row > room - matrix_bytes:
            raise ResourceError(
                f"{n} tokens in dimension {self.d} need about {format_bytes(n * row)} "
                f"of memory, but {_machine()}; at most {(room - matrix_bytes) // row} "
                "tokens fit."
            )
        sums = SCORE_BUFFERS * n * max(n, keys) * self.item
        if self.is_dense and sums > room:
            subject = f"{n} tokens" if keys <= n else f"{keys} keys of {n} tokens"
            raise ResourceError(
                f"Dense sums over {subject} need {format_bytes(sums)} of memory, but "
                f"{_machine()}; use `reduction = blocked`."
            )

    def check_context(self, numbers: int) -> None:
        """Checks that moving contexts fit into memory, before they are read.

        Args:
            numbers: the total number of floats in the frames of the contexts.

        Raises:
            ResourceError: if they do not; the message says how much memory they need
                and how much there is.
        """
        n_copies = CONTEXT_COPIES + SPLINE_COPIES * (self.n_draws - 1)
        size = n_copies * numbers * self.item
        if size > SHARE * physical_memory():
            raise ResourceError(
                f"A moving context needs about {format_bytes(size)} of memory, but "
                f"{_machine()}; use a single frame of it, `RUN:TIME`, or a run with "
                "fewer frames."
            )

    def check_grid(self, cells: int) -> None:
        """Checks that a grid fits into memory.

        Raises:
            ResourceError: if it does not; the message says how much memory it needs,
                how much there is, and how many cells fit.
        """
        cell_bytes = (self.n_copies + FACES) * self.item * self.n_draws
        room = int(SHARE * physical_memory())
        if cells * cell_bytes > room:
            raise ResourceError(
                f"A grid of {cells} cells needs about "
                f"{format_bytes(cells * cell_bytes)} of memory, but {_machine()}; at "
                f"most {room // cell_bytes} cells fit."
            )


def _machine() -> str:
    return f"this machine has {format_bytes(physical_memory())}"


def physical_memory() -> int:
    """The memory of this machine, in bytes.

    Examples:
        >>> from meanfield import runs
        >>> runs.physical_memory() > 2**20
        True
    """
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def format_bytes(size: int | float) -> str:
    """A rounded size in bytes with its unit, such as `1.5 GB`.

    Examples:
        >>> from meanfield.runs import format_bytes
        >>> format_bytes(1.5e9), format_bytes(2048)
        ('1.5 GB', '2.05 kB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
