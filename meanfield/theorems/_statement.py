"""Statements: a claim, a measurement of it, a control that must fail."""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from meanfield._registry import Registry

from ._case import Case
from ._check import Check, Checks

Measurement = Callable[..., Checks]
Broken = tuple[str, Mapping[str, Any]] | tuple[str, Mapping[str, Any], tuple[str, ...]]
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Counterexample(NamedTuple):
    """One set of data, measured against the print and against the correction.

    Attributes:
        printed: the claim as printed; each must be violated.
        corrected: the corrected claim on the same data; each must hold.

    Examples:
        >>> from meanfield.theorems import Counterexample
        >>> Counterexample._fields
        ('printed', 'corrected')
    """

    printed: Checks
    corrected: Checks


class Control(NamedTuple):
    """The same measurement with something broken: it must fail.

    Attributes:
        text: what was dropped or changed, in a sentence.
        measure: each check it returns must be violated.
        broken: the keywords of the statement that it changes; none if it is a
            measurement of its own.
    """

    text: str
    measure: Measurement
    broken: Mapping[str, Any] = NOTHING


@dataclass(frozen=True)
class Printed:
    """What stands in the paper, where that is false.

    Attributes:
        errata: numbers of the errata: `C12`.
        printed: what is printed, a sentence with mathematics in `$…$`.
        corrected: what is true, likewise.
        counterexample: the data, in words.
        measure: shows the one violated and the other not.
    """

    errata: tuple[str, ...]
    printed: str
    corrected: str
    counterexample: str
    measure: Callable[[Case], Counterexample]


@dataclass
class Statement:
    """A claim of the literature, and how it is measured.

    Attributes:
        id: `castin2025:lemma-4.1`; the part before the colon is the key of the paper.
        source: where it stands: `Lemma 4.1, §4.1`.
        claim: what holds, a sentence with mathematics in `$…$`.
        hypotheses: under what, likewise.
        measure: measures it; the docstring is the protocol. Its keywords are what a
            control or a misprint may change; their defaults are what is claimed.
        aliases: further ids of the same claim.
        remark: what a reader should know besides, an erratum of the proof, say.
        repeats: the id of the same claim in another source, which is measured in the
            same way on other draws.
        control: the same measurement, broken.
        printed: what is printed instead, where that is false.

    Examples:
        >>> from meanfield.theorems import statements
        >>> made = statements["castin2025:eq-2.2"]
        >>> made.source, made.paper, made.control is not None
        ('(2.2), (2.3), §2.1', 'castin2025', True)
    """

    id: str
    source: str
    claim: str
    hypotheses: str
    measure: Measurement
    aliases: tuple[str, ...] = ()
    remark: str = ""
    repeats: str = ""
    control: Control | None = None
    printed: Printed | None = None

    @property
    def paper(self) -> str:
        """The key of the paper."""
        return self.id.split(":", 1)[0]

    @property
    def group(self) -> str:
        """What its file is about."""
        module = sys.modules[self.measure.__module__]
        return (inspect.getdoc(module) or "").split("\n", 1)[0].rstrip(".")

    @property
    def protocol(self) -> str:
        """How it is measured, in words."""
        return " ".join((inspect.getdoc(self.measure) or "").split())

    def __call__(self, case: Case, **changed: Any) -> tuple[Check, ...]:
        """The measurement, with some of its keywords changed."""
        return tuple(self.measure(case, **changed))

    def refuted_if(
        self, text: str, *, seen_by: tuple[str, ...] = (), **broken: Any
    ) -> None:
        """Files the control that is this measurement with keywords changed.

        Args:
            text: what is dropped or changed, in a sentence.
            seen_by: labels of the checks that must fail then, those that begin alike
                by their beginning and `…`; every check must, if none is named.
            broken: what the keywords become.

        Raises:
            TypeError: if the measurement has no keyword of such a name.
        """
        known = list(inspect.signature(self.measure).parameters)[1:]
        for name in broken:
            if name not in known:
                raise TypeError(
                    f"`{self.id}` has no keyword `{name}` that a control could change; "
                    f"it has {', '.join(known) or 'none'}."
                )
        measure = lambda case: _seen(self(case, **broken), seen_by)
        self.control = Control(text, measure, broken)

    def refuted_by(self, text: str) -> Callable[[Measurement], Measurement]:
        """A decorator for a control that is a measurement of its own.

        It is for what no keyword can change; `text` says what it breaks.
        """

        def add(measure: Measurement) -> Measurement:
            self.control = Control(text, measure)
            return measure

        return add

    def misprinted(
        self, *errata: str, printed: str, corrected: str, counterexample: str
    ) -> Callable[[Callable[[Case], Counterexample]], Callable]:
        """A decorator for what is printed: the id with `:printed` behind it."""

        def add(measure: Callable[[Case], Counterexample]) -> Callable:
            self.printed = Printed(errata, printed, corrected, counterexample, measure)
            return measure

        return add


def _seen(checks: tuple[Check, ...], labels: tuple[str, ...]) -> tuple[Check, ...]:
    """The checks of these labels, or all of them.

    Raises:
        LookupError: if no check has one of the labels.
    """
    for label in labels:
        if not any(_labelled(check, label) for check in checks):
            raise LookupError(f"no check is labelled `{label}`")
    named = [check for check in checks if any(_labelled(check, x) for x in labels)]
    return tuple(named) if labels else checks


def _labelled(check: Check, label: str) -> bool:
    if label.endswith("…"):
        return check.label.startswith(label[:-1])
    return check.label == label


statements: Registry[Statement] = Registry("statement")


def statement(
    id: str,  # noqa: A002 - the word for it
    *,
    source: str,
    claim: str,
    hypotheses: str = "",
    aliases: tuple[str, ...] = (),
    remark: str = "",
    repeats: str = "",
    control: Broken | None = None,
) -> Callable[[Measurement], Statement]:
    """A decorator: registers a measurement as a statement.

    `control` is what `refuted_if` takes: the text, what keywords become, and the labels
    of the checks that see it, if not all do. The others are attributes of `Statement`.

    Raises:
        ValueError: if the id is taken.
        TypeError: if the measurement has no keyword of a name that `control` changes.

    Examples:
        >>> from meanfield.theorems import statements
        >>> len(statements) > 150, statements["castin2025:eq-2.2"].group
        (True, 'Attention variants on points')
    """

    def add(measure: Measurement) -> Statement:
        said = (source, claim, hypotheses)
        made = Statement(id, *said, measure, aliases, remark, repeats)
        if control is not None:
            text, broken, *labels = control
            made.refuted_if(text, seen_by=labels[0] if labels else (), **broken)
        return statements.register(id)(made)

    return add
