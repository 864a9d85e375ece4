"""Every way a flow can end, a row each, read by storage, reports and pictures."""

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from typing_extensions import override

from .errors import InvalidInputError, SimulationFailed

RESULT, FAILURE, INTERRUPTION = 0, SimulationFailed.exit_code, 130


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is to be known of one ending.

    Attributes:
        code: the number that stores keep, never to change.
        severity: the ending of several flows is that of the most severe of them.
        reason: why a flow ends so, as the end of a sentence.
        exit_code: of a command whose flow ends so.
        leaves: whether a flow that ends so leaves every picture.
        survives: whether a flow that ends so had no blow-up until then: it may have
            one later, or never.
        colour: of its paths and cells.
        marker: of its last point, so that endings are told apart in grey.
        hatch: of its cells in a phase diagram.

    Examples:
        >>> from meanfield import Status
        >>> Status.BLOW_UP.row.exit_code, Status.BLOW_UP.row.marker
        (0, '^')
    """

    code: int
    severity: int
    reason: str
    exit_code: int = RESULT
    leaves: bool = False
    survives: bool = False
    colour: str
    marker: str
    hatch: str


class Status(enum.IntEnum):
    """How a flow ended, a number that prints as its name: `blow-up`.

    See `failed` for those that are no result.

    Examples:
        >>> from meanfield import Status
        >>> print(Status.BLOW_UP, Status.named("max-steps").failed)
        blow-up True
        >>> [str(status) for status in Status if status.failed]
        ['max-steps', 'not-finite', 'unconverged']
        >>> Status.STEADY.reason
        'what is left of the way is below the tolerance'
    """

    row: Row

    def __new__(cls, row: Row) -> "Status":
        """The number of an ending, which knows its row."""
        status = int.__new__(cls, row.code)
        status._value_ = row.code
        status.row = row
        return status

    FINISHED = Row(
        code=0,
        severity=0,
        reason="the last time was reached",
        survives=True,
        colour="#0072B2",
        marker="o",
        hatch="",
    )
    STEADY = Row(
        code=1,
        severity=1,
        reason="what is left of the way is below the tolerance",
        survives=True,
        colour="#009E73",
        marker="s",
        hatch="....",
    )
    BLOW_UP = Row(
        code=2,
        severity=5,
        reason="the size grows without bound in finite time, or passed its bound",
        leaves=True,
        colour="#D55E00",
        marker="^",
        hatch="////",
    )
    MAX_STEPS = Row(
        code=3,
        severity=8,
        reason="the steps allowed are spent, or shrank to rounding",
        exit_code=FAILURE,
        colour="#E69F00",
        marker="D",
        hatch="xxxx",
    )
    NOT_FINITE = Row(
        code=4,
        severity=8,
        reason="the velocity or the state is no longer finite",
        exit_code=FAILURE,
        leaves=True,
        colour="#222222",
        marker="X",
        hatch="----",
    )
    UNCONVERGED = Row(
        code=5,
        severity=8,
        reason="an iteration, interpolation or quadrature behind the field missed its "
        "tolerance",
        exit_code=FAILURE,
        colour="#CC79A7",
        marker="v",
        hatch="\\\\\\\\",
    )
    INTERRUPTED = Row(
        code=6,
        severity=7,
        reason="the run was interrupted and can be resumed",
        exit_code=INTERRUPTION,
        colour="#56B4E9",
        marker="P",
        hatch="++++",
    )
    COLLAPSE = Row(
        code=7,
        severity=2,
        reason="a Dirac, as far as the cells of its grid, or the rounding of time, can "
        "tell",
        colour="#5E3C99",
        marker="*",
        hatch="oooo",
    )
    ESCAPE = Row(
        code=8,
        severity=4,
        reason="the grid is too narrow: a thousandth of the mass or of its second "
        "moment has left it, or velocities hang on tails at its edges and beyond",
        colour="#8C510A",
        marker=">",
        hatch="||||",
    )
    UNRESOLVED = Row(
        code=9,
        severity=6,
        reason="the flow was followed, but more than a tenth of its mean or covariance "
        "is in doubt, or whether it blew up just before its parameters jumped",
        colour="#999933",
        marker="<",
        hatch="****",
    )

    @classmethod
    def named(cls, name: str) -> "Status":
        """The ending of this name.

        Raises:
            InvalidInputError: if there is none.
        """
        for status in cls:
            if status.ending == name:
                return status
        known = ", ".join(status.ending for status in cls)
        raise InvalidInputError(f"No run ends with `{name}`; known: {known}.")

    @classmethod
    def most_severe(cls, statuses: Iterable["Status"]) -> "Status":
        """The ending that stands for those of several flows; the first of equals.

        A failure before a flow that was interrupted, then what is unresolved, then a
        blow-up: `finished` only if all flows are.

        Examples:
            >>> from meanfield import Status
            >>> print(Status.most_severe([Status.FINISHED, Status.BLOW_UP]))
            blow-up
        """
        return max(statuses, key=lambda status: status.row.severity)

    @override
    def __str__(self) -> str:
        return self.ending

    @override
    def __format__(self, format_spec: str) -> str:
        return format(self.ending, format_spec)

    @property
    def ending(self) -> str:
        """The name of the ending, as printed and stored: `blow-up`."""
        return self.name.lower().replace("_", "-")

    @property
    def reason(self) -> str:
        """Why a flow ends so, as the end of a sentence."""
        return self.row.reason

    @property
    def failed(self) -> bool:
        """Whether the numbers after this ending cannot be had by going on."""
        return self.row.exit_code == FAILURE


def endings_in_words(statuses: Iterable[Status]) -> str:
    """How many flows ended in each way, the most severe first.

    Examples:
        >>> from meanfield.endings import Status, endings_in_words
        >>> endings_in_words([Status.FINISHED, Status.BLOW_UP, Status.FINISHED])
        'blow-up × 1, finished × 2'
    """
    counts = Counter(statuses)
    ranked = sorted(counts, key=lambda status: (-status.row.severity, int(status)))
    return ", ".join(f"{status} × {counts[status]}" for status in ranked)
