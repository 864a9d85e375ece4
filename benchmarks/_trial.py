"""Trials, and the jobs that run them in their own process."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from ._usage import OWN, Usage

Size = Literal["quick", "full", "long"]
OURS = "meanfield-attention"
Clock = Literal["seconds", "cpu_seconds"]
ITEMSIZE = {"float32": 4, "float64": 8}


@dataclass(frozen=True)
class Trial:
    """Description of one measurement, as plain names and numbers.

    Attributes:
        case: name of its case.
        method: name of the method in the table.
        maker: function in `benchmarks.methods` that makes the job, as `FILE:NAME`.
        package: distribution that the method needs.
        dtype: floating-point type.
        n: number of tokens, of members of a family, or of cells along an axis.
        d: dimension.
        problem: label that distinguishes problems of a case.
        queries: number of queries if not all `n`; times are then scaled to `n`.
        buffers: number of `n × n` matrices in memory at the same time.
        settings: further parameters for the maker.
        device: device of the arrays: `cpu`, or the kind of an accelerator.
        clock: time by which processes and methods are compared, an entry of the row.
    """

    case: str
    method: str
    maker: str
    package: str
    dtype: str
    n: int
    d: int
    problem: str = ""
    queries: int | None = None
    buffers: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    clock: Clock = "seconds"

    @property
    def n_queries(self) -> int:
        """Number of queries at which velocities are computed."""
        return self.n if self.queries is None else min(self.n, self.queries)

    @property
    def scale(self) -> float:
        """Factor by which times are multiplied to account for all `n` queries."""
        return self.n / self.n_queries

    @property
    def bytes_needed(self) -> int:
        """Number of bytes of the largest arrays of the trial."""
        return self.buffers * self.n * self.n_queries * ITEMSIZE[self.dtype]

    @property
    def label(self) -> str:
        """Description of the trial on one line."""
        parts = [self.problem] if self.problem else []
        parts += [f"n = {self.n}, d = {self.d}, {self.dtype}, {self.method}"]
        return f"{self.case}: {', '.join(parts)}"

    def as_json(self) -> dict[str, Any]:
        """The attributes as a dictionary; `Trial(**values)` gives an equal trial."""
        return asdict(self)


class Job(NamedTuple):
    """Work that can be repeated and timed.

    Attributes:
        run: function that does the work once, and blocks until it is complete.
        facts: function that is called with the last result after timing. It returns
            further entries of the row, such as `error`, `products`, `exponentials`.
        warmups: number of first runs that are not timed.
        max_repeats: largest number of timed runs.
        usage: counter of processor time and memory.
    """

    run: Callable[[], Any]
    facts: Callable[[Any], Mapping[str, Any]]
    warmups: int = 1
    max_repeats: int = 50
    usage: Usage = OWN


class Case(NamedTuple):
    """Group of trials; all trials of one problem are compared with its first trial.

    Attributes:
        description: Markdown text that explains the measurement and the error.
        trials: function from the size, such as `quick`, to the trials.
    """

    description: str
    trials: Callable[[Size], list[Trial]]
