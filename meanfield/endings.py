"""All endings of a flow, with the properties that storage, reports and plots use."""

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from .errors import InvalidInputError, SimulationError

RESULT, FAILURE, INTERRUPTION = 0, SimulationError.exit_code, 130


@dataclass(frozen=True, kw_only=True)
class Row:
    """Properties of one ending.

    Attributes:
        code: the number written to stores; it must never change.
        severity: rank of the ending; for several flows, the most severe is reported.
        reason: why a flow ends in this way, as the end of a sentence.
        exit_code: exit code of a command whose flow ends in this way.
        leaves: whether the state of such a flow can grow beyond any plot.
        survives: whether such a flow had no blow-up until its end; it may still have
            one later.
        colour: colour of such flows in plots.
        marker: marker of the last point, which distinguishes endings without colour.
        hatch: hatching of such flows in a phase diagram.

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
    """How a flow ended: an integer that prints as its name, such as `blow-up`.

    `is_failure` says whether the flow gave no result.

    Examples:
        >>> from meanfield import Status
        >>> print(Status.BLOW_UP, Status.from_name("max-steps").is_failure)
        blow-up True
        >>> [str(status) for status in Status if status.is_failure]
        ['max-steps', 'not-finite', 'unconverged']
        >>> Status.STEADY.reason
        'the remaining displacement is below the tolerance'
    """

    row: Row

    def __new__(cls, row: Row) -> "Status":
        """Creates the integer `row.code`, with `row` attached."""
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
        reason="the remaining displacement is below the tolerance",
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
        reason="the maximum number of steps was reached, or steps shrank to rounding",
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
        reason="a Dirac, at the resolution of the grid or of rounded times",
        colour="#5E3C99",
        marker="*",
        hatch="oooo",
    )
    ESCAPE = Row(
        code=8,
        severity=4,
        reason="the grid is too narrow: a thousandth of the mass or of its second "
        "moment has left it, or velocities depend on the tails at its edges or beyond",
        colour="#8C510A",
        marker=">",
        hatch="||||",
    )
    UNRESOLVED = Row(
        code=9,
        severity=6,
        reason="the last time was reached, but the estimated error of the mean or "
        "covariance exceeds a tenth, or a blow-up just before a jump of the parameters "
        "cannot be excluded",
        colour="#999933",
        marker="<",
        hatch="****",
    )

    CLUSTERED = Row(
        code=10,
        severity=1,
        reason="the tokens formed as few clusters as asked for",
        survives=True,
        colour="#332288",
        marker="h",
        hatch="..",
    )

    @classmethod
    def from_name(cls, name: str) -> "Status":
        """The ending called `name`.

        Raises:
            InvalidInputError: if there is no such ending.
        """
        for status in cls:
            if status.ending == name:
                return status
        names = ", ".join(status.ending for status in cls)
        raise InvalidInputError(
            f"`{name}` is not the ending of any run; known endings: {names}."
        )

    @classmethod
    def most_severe(cls, statuses: Iterable["Status"]) -> "Status":
        """The most severe of several endings; the first one among equals.

        Failures come first, then `interrupted`, `unresolved` and `blow-up`. The result
        is `finished` only if all flows finished.

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
        """The name of the ending as printed and stored, such as `blow-up`."""
        return self.name.lower().replace("_", "-")

    @property
    def reason(self) -> str:
        """Why a flow ends in this way, as the end of a sentence."""
        return self.row.reason

    @property
    def is_failure(self) -> bool:
        """Whether the flow failed: resuming it would give no result."""
        return self.row.exit_code == FAILURE


def status_counts(codes: ArrayLike) -> dict[str, int]:
    """Number of members of an ensemble with each ending.

    Examples:
        >>> from meanfield.flows import status_counts
        >>> status_counts(jnp.array([0, 2, 2]))
        {'finished': 1, 'blow-up': 2}
    """
    counts = Counter(np.ravel(codes).tolist())
    return {Status(code).ending: counts[code] for code in sorted(counts)}


def summarise_endings(statuses: Iterable[Status]) -> str:
    """Number of flows with each ending, most severe first.

    Examples:
        >>> from meanfield.endings import Status, summarise_endings
        >>> summarise_endings([Status.FINISHED, Status.BLOW_UP, Status.FINISHED])
        'blow-up × 1, finished × 2'
    """
    counts = Counter(statuses)
    order = sorted(counts, key=lambda status: (-status.row.severity, int(status)))
    return ", ".join(f"{status} × {counts[status]}" for status in order)
