"""Sliced transport: the schedule of its temperature."""

from fractions import Fraction

from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare

START, END, STEPS = Fraction(1, 1000), Fraction(1, 10**6), 40


@statement(
    "shahbazi2025:annealing",
    source="The schedule of the temperature",
    claim=r"From $t_0 = 10^{-3}$, multiplied by 0.8 forty times, the temperature ends "
    r"at $1.33 \cdot 10^{-7}$, and passes $10^{-6}$ at the 31st; to end there it must "
    r"start at $7.5 \cdot 10^{-3}$.",
    control=(
        "a factor of 0.8413, which does end at 10⁻⁶",
        {"factor": Fraction(8413, 10000)},
    ),
)
def schedule(_: Case, *, factor: Fraction = Fraction(4, 5)) -> Checks:
    """Checks the temperatures of the schedule, in exact fractions."""
    digits = Slack(tolerance=5e-3, why="three digits are claimed")
    ts = _temperatures(factor)
    last, steps = ts[-1], next(k for k, t in enumerate(ts) if t <= END)
    start = END / (last / START)
    yield compare("10⁷ times the last", last * 10**7, "=", 1.329, **digits)
    yield compare("steps to 10⁻⁶", steps, "=", 31, why="a count")
    yield compare("10³ times the start", start * 10**3, "=", 7.523, **digits)


def _temperatures(factor: Fraction) -> list[Fraction]:
    """Temperatures of the schedule, at the start and after each step."""
    return [START * factor**k for k in range(STEPS + 1)]


@schedule.register_misprint(
    "H8",
    claim=r"From $10^{-3}$ by factors of 0.8 to $10^{-6}$ in forty steps.",
    correction=r"To $1.33 \cdot 10^{-7}$; the factor would be $10^{-3/40} = 0.841$.",
    counterexample="forty steps in exact fractions",
)
def _(_: Case) -> Counterexample:
    ends = lambda factor: float(_temperatures(factor)[-1] / END)
    slack = Slack(tolerance=0.01, why="one digit is printed, and the factor has four")
    last = lambda factor: compare("last over 10⁻⁶", ends(factor), "=", 1, **slack)
    return Counterexample((last(Fraction(4, 5)),), (last(Fraction(8414, 10000)),))
