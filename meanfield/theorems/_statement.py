"""Statements: a claim, a measurement of it, a control that must fail."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from meanfield._registry import Registry

from ._case import Case
from ._check import Check

Measurement = Callable[[Case], tuple[Check, ...]]


class Counterexample(NamedTuple):
    """One set of data, measured against the print and against the correction.

    Attributes:
        printed: the claim as printed; each must be violated.
        corrected: the corrected claim on the same data; each must hold.
    """

    printed: tuple[Check, ...]
    corrected: tuple[Check, ...]


class Control(NamedTuple):
    """The same measurement with something broken: it must fail.

    Attributes:
        text: what was dropped or changed, in a sentence.
        measure: each check it returns must be violated.
    """

    text: str
    measure: Measurement


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
        measure: measures it; the docstring is the protocol.
        aliases: further ids of the same claim.
        remark: what a reader should know besides, an erratum of the proof, say.
        control: the same measurement, broken.
        printed: what is printed instead, where that is false.
    """

    id: str
    source: str
    claim: str
    hypotheses: str
    measure: Measurement
    aliases: tuple[str, ...] = ()
    remark: str = ""
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

    def refuted_by(self, text: str) -> Callable[[Measurement], Measurement]:
        """A decorator for the control; `text` says what it breaks."""

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


statements: Registry[Statement] = Registry("statement")


def statement(
    id: str,  # noqa: A002 - the word for it
    *,
    source: str,
    claim: str,
    hypotheses: str = "",
    aliases: tuple[str, ...] = (),
    remark: str = "",
) -> Callable[[Measurement], Statement]:
    """A decorator: registers a measurement as a statement.

    Raises:
        ValueError: if the id is taken.
    """

    def add(measure: Measurement) -> Statement:
        made = Statement(id, source, claim, hypotheses, measure, aliases, remark)
        return statements.register(id)(made)

    return add
