"""What fits into the memory of this machine, before any of it is made."""

import os
from dataclasses import dataclass

from meanfield.errors import ResourceError
from meanfield.spec import RunSpec

SHARE = 0.8  # of the machine's memory that a run may plan to use
SCORE_BUFFERS = 4  # scores, exponentials, and what a step keeps of them
MATRICES = 6  # of size d × d that an attention keeps or makes on its way
FACES = 12  # velocities, face values and fluxes of a grid, in copies of its masses
HIDDEN = 2  # arrays of what a perceptron makes on its way, a row for each token
PASSING = 10  # copies of its frames that a context which moves takes on its way
SPLINES = 4  # of them that it keeps, as coefficients
STAGES = 16  # copies of the coordinates that a Runge–Kutta step holds at most


@dataclass(frozen=True)
class Footprint:
    """What a run holds in memory at once.

    Attributes:
        d: the dimension.
        item: bytes of a number.
        held: copies of the state of each member.
        draws: of start and laws.
        attentions: that have matrices of their own, in all layers, heads and terms.
        width: the most units of a perceptron among the drifts.
        is_dense: whether all pairs of tokens are summed at once.
    """

    d: int
    item: int
    held: int
    draws: int
    attentions: int
    width: int
    is_dense: bool

    @classmethod
    def of(cls, spec: RunSpec, d: int, frames: int) -> "Footprint":
        """The footprint of a spec in dimension `d`, whose run has so many frames."""
        drifts = (spec.drift, *(layer.drift for layer in spec.layers))
        inner = [drift["W1"] for drift in drifts if drift and "W1" in drift]
        widths = [len(W) if isinstance(W, list) else d for W in inner]
        return cls(
            d=d,
            item=8 if spec.precision == "double" else 4,
            held=min(frames, spec.segment + 1) + STAGES,
            draws=spec.draws or 1,
            attentions=max(len(spec.layers), 1) * spec.heads + len(spec.terms),
            width=max(widths, default=0),
            is_dense=spec.reduction == "dense",
        )

    def check_tokens(self, n: int, *, keys: int) -> None:
        """Refuses matrices, and `n` tokens or none, that cannot fit.

        Args:
            n: tokens that are to be made.
            keys: that they look at besides each other.

        Raises:
            ResourceError: naming what is needed, what there is, and what would fit.
        """
        room = int(SHARE * physical_memory())
        fixed = MATRICES * self.attentions * self.draws * self.d**2 * self.item
        if fixed > room:
            raise ResourceError(
                f"Matrices in dimension {self.d} need about {readable(fixed)} of "
                f"memory and {_machine()}; lower `d`."
            )
        row = self.d * self.item * self.held * self.draws
        row += HIDDEN * self.width * self.item
        if n * row > room - fixed:
            raise ResourceError(
                f"{n} tokens in dimension {self.d} need about {readable(n * row)} of "
                f"memory and {_machine()}; at most {(room - fixed) // row} tokens fit."
            )
        sums = SCORE_BUFFERS * n * max(n, keys) * self.item
        if self.is_dense and sums > room:
            over = f"{n} tokens" if keys <= n else f"{keys} keys of {n} tokens"
            raise ResourceError(
                f"Dense sums over {over} need {readable(sums)} of memory and "
                f"{_machine()}; use `reduction = blocked`."
            )

    def check_context(self, numbers: int) -> None:
        """Refuses contexts that move and cannot fit, before they are read.

        Args:
            numbers: that all their frames hold.

        Raises:
            ResourceError: naming what is needed and what there is.
        """
        size = (PASSING + SPLINES * (self.draws - 1)) * numbers * self.item
        if size > SHARE * physical_memory():
            raise ResourceError(
                "A context that moves through its frames needs about "
                f"{readable(size)} of memory and {_machine()}; look at one frame, as "
                "RUN:TIME, or at a run of fewer."
            )

    def check_grid(self, cells: int) -> None:
        """Refuses a grid that cannot fit.

        Raises:
            ResourceError: naming what is needed, what there is, and what would fit.
        """
        each = (self.held + FACES) * self.item * self.draws
        room = int(SHARE * physical_memory())
        if cells * each > room:
            raise ResourceError(
                f"A grid of {cells} cells needs about {readable(cells * each)} of "
                f"memory and {_machine()}; at most {room // each} cells fit."
            )


def _machine() -> str:
    return f"this machine has {readable(physical_memory())}"


def physical_memory() -> int:
    """The memory of this machine, in bytes.

    Examples:
        >>> from meanfield import runs
        >>> runs.physical_memory() > 2**20
        True
    """
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def readable(size: int | float) -> str:
    """A size in bytes for people: `1.5 GB`.

    Examples:
        >>> from meanfield.runs import readable
        >>> readable(1.5e9), readable(2048)
        ('1.5 GB', '2.05 kB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
