"""What is measured: trials, and the jobs that they become in a process of their own."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from ._usage import OWN, Usage

Size = Literal["quick", "full", "long"]
OURS = "meanfield-attention"
ITEMSIZE = {"float32": 4, "float64": 8}


@dataclass(frozen=True)
class Trial:
    """A row of the table, before it is measured: names and numbers alone.

    Attributes:
        case: the case that it belongs to.
        method: its name in the table.
        maker: the function of `benchmarks.methods` that makes its job, `FILE:NAME`.
        package: the distribution that must be installed.
        dtype: of the numbers that are computed with.
        n: tokens, or members of a family, or cells along an axis.
        d: dimension.
        problem: what else tells one problem of a case from another.
        queries: where so few are asked for, times are scaled to all `n`.
        buffers: matrices of `n × n` numbers that are held at once.
        settings: what else the maker must know.
        device: where arrays live: `cpu`, or the kind of an accelerator.
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

    @property
    def asked(self) -> int:
        """The number of queries that are asked for."""
        return self.n if self.queries is None else min(self.n, self.queries)

    @property
    def scale(self) -> float:
        """By what times are multiplied, to stand for all queries."""
        return self.n / self.asked

    @property
    def bytes_needed(self) -> int:
        """What its largest arrays take."""
        return self.buffers * self.n * self.asked * ITEMSIZE[self.dtype]

    @property
    def words(self) -> str:
        """The trial in a line."""
        parts = [self.problem] if self.problem else []
        parts += [f"n = {self.n}, d = {self.d}, {self.dtype}, {self.method}"]
        return f"{self.case}: {', '.join(parts)}"

    def as_json(self) -> dict[str, Any]:
        """Its attributes; `Trial(**values)` is the same trial."""
        return asdict(self)


class Job(NamedTuple):
    """Work that can be repeated and timed.

    Attributes:
        run: does it once, and returns when all of it is done.
        facts: what is to be told of its last result, once nothing is timed any more:
            `error`, operations in matrix `products`, `exponentials`, or anything else.
        warmups: how often it is run first, without being timed.
        most: how often it is timed at most.
        usage: of which processes processor and memory are counted.
    """

    run: Callable[[], Any]
    facts: Callable[[Any], Mapping[str, Any]]
    warmups: int = 1
    most: int = 50
    usage: Usage = OWN


class Case(NamedTuple):
    """Trials of one kind: the first of each problem is what others are compared with.

    Attributes:
        says: what is measured, and what an error is, in Markdown.
        trials: those of a size.
    """

    says: str
    trials: Callable[[Size], list[Trial]]
