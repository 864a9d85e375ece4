"""Statements: a claim, a measurement of it, and a control that must fail."""

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
ControlSpec = (
    tuple[str, Mapping[str, Any]] | tuple[str, Mapping[str, Any], tuple[str, ...]]
)
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Counterexample(NamedTuple):
    """Checks of the printed claim and of its correction on the same data.

    Attributes:
        misprint: checks of the claim as printed; each must be violated.
        correction: checks of the corrected claim; each must hold.

    Examples:
        >>> from meanfield.theorems import Counterexample
        >>> Counterexample._fields
        ('misprint', 'correction')
    """

    misprint: Checks
    correction: Checks


class Control(NamedTuple):
    """A deliberately broken version of a measurement, which must fail.

    Attributes:
        text: what was dropped or changed, in a sentence.
        measure: the broken measurement; each check it returns must be violated.
        changes: new values of keywords of the statement's measurement; empty if the
            control is a separate measurement.
    """

    text: str
    measure: Measurement
    changes: Mapping[str, Any] = NOTHING


@dataclass(frozen=True)
class Misprint:
    """A false claim printed in a paper, with its correction.

    Attributes:
        errata: numbers in the list of errata, such as `C12`.
        claim: the claim as printed, a sentence with mathematics in `$…$`.
        correction: the corrected claim, in the same form.
        counterexample: the data that refutes the printed claim, in words.
        measure: measures both claims on that data.
    """

    errata: tuple[str, ...]
    claim: str
    correction: str
    counterexample: str
    measure: Callable[[Case], Counterexample]


@dataclass
class Statement:
    """A claim from the literature, with a measurement that tests it.

    Attributes:
        id: key of the paper, a colon and a name, such as `castin2025:lemma-4.1`.
        source: place in the paper, such as `Lemma 4.1, §4.1`.
        claim: a sentence with mathematics in `$…$`.
        hypotheses: assumptions of the claim, in the same form.
        measure: function that returns the checks; its docstring is the protocol. With
            the defaults of its keywords it tests the claim; controls and misprints
            change the keywords.
        aliases: further ids of the same claim.
        remark: a note for the reader, such as an erratum of the proof.
        repeats: id of a statement that makes the same claim in another source. It is
            measured in the same way, on other random draws.
        control: a broken version of the measurement, which must fail.
        misprint: the claim as printed, if that is false.

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
    misprint: Misprint | None = None

    @property
    def paper(self) -> str:
        """The key of the paper."""
        return self.id.split(":", 1)[0]

    @property
    def group(self) -> str:
        """The topic of the statement: the first line of its module's docstring."""
        module = sys.modules[self.measure.__module__]
        return (inspect.getdoc(module) or "").split("\n", 1)[0].rstrip(".")

    @property
    def protocol(self) -> str:
        """The docstring of the measurement, on one line."""
        return " ".join((inspect.getdoc(self.measure) or "").split())

    def __call__(self, case: Case, **changes: Any) -> tuple[Check, ...]:
        """Runs the measurement, with some of its keywords changed."""
        return tuple(self.measure(case, **changes))

    def set_control(
        self, text: str, *, labels: tuple[str, ...] = (), **changes: Any
    ) -> None:
        """Sets the control: this measurement with some keywords changed.

        Args:
            text: what is dropped or changed, in a sentence.
            labels: labels of the checks that must fail. A label that ends in `…`
                stands for all labels that begin so. Without labels, every check must
                fail.
            changes: new values of the keywords.

        Raises:
            TypeError: if the measurement has no keyword of that name.
        """
        keywords = list(inspect.signature(self.measure).parameters)[1:]
        for name in changes:
            if name not in keywords:
                raise TypeError(
                    f"The measurement of `{self.id}` has no keyword `{name}`; "
                    f"its keywords are: {', '.join(keywords) or 'none'}."
                )
        measure = lambda case: _select_checks(self(case, **changes), labels)
        self.control = Control(text, measure, changes)

    def register_control(self, text: str) -> Callable[[Measurement], Measurement]:
        """Decorator that sets a separate measurement as the control.

        Some controls cannot be made by changing keywords of the measurement. `text`
        says what the control breaks.
        """

        def add(measure: Measurement) -> Measurement:
            self.control = Control(text, measure)
            return measure

        return add

    def register_misprint(
        self, *errata: str, claim: str, correction: str, counterexample: str
    ) -> Callable[[Callable[[Case], Counterexample]], Callable]:
        """Decorator that registers a misprint; `verify ID:printed` selects it."""

        def add(measure: Callable[[Case], Counterexample]) -> Callable:
            self.misprint = Misprint(errata, claim, correction, counterexample, measure)
            return measure

        return add


def _select_checks(
    checks: tuple[Check, ...], labels: tuple[str, ...]
) -> tuple[Check, ...]:
    """Checks whose label is among `labels`; all checks if there are no labels.

    Raises:
        LookupError: if a label matches no check.
    """
    for label in labels:
        if not any(_has_label(check, label) for check in checks):
            raise LookupError(f"No check has the label `{label}`.")
    matches = [check for check in checks if any(_has_label(check, x) for x in labels)]
    return tuple(matches) if labels else checks


def _has_label(check: Check, label: str) -> bool:
    if label.endswith("…"):
        return check.label.startswith(label[:-1])
    return check.label == label


statements: Registry[Statement] = Registry("statement")


def statement(
    id: str,  # noqa: A002 - its name in `Statement`
    *,
    source: str,
    claim: str,
    hypotheses: str = "",
    aliases: tuple[str, ...] = (),
    remark: str = "",
    repeats: str = "",
    control: ControlSpec | None = None,
) -> Callable[[Measurement], Statement]:
    """Decorator that registers a measurement as a statement.

    `control` holds the arguments of `Statement.set_control`: the text, the changed
    keywords and, optionally, the labels of the checks that must fail. The other
    arguments are attributes of `Statement`.

    Raises:
        ValueError: if the id is already registered.
        TypeError: if `control` changes a keyword that the measurement does not have.

    Examples:
        >>> from meanfield.theorems import statements
        >>> len(statements) > 150, statements["castin2025:eq-2.2"].group
        (True, 'Attention variants on points')
    """

    def add(measure: Measurement) -> Statement:
        texts = (source, claim, hypotheses)
        entry = Statement(id, *texts, measure, aliases, remark, repeats)
        if control is not None:
            text, changes, *labels = control
            entry.set_control(text, labels=labels[0] if labels else (), **changes)
        return statements.register(id)(entry)

    return add
