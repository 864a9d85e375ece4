"""Case `slices`: sliced and Sinkhorn attention, as in the timings of shahbazi2025."""

from ._sliced import BACK, MANY, PAPER
from ._trial import OURS, Case, Size, Trial

HALF_STEPS = (1, 3, 5, 10, 21)
METHODS = (
    ("ours, hard sort", "slices:hard", OURS, {}),
    ("ours, soft sort", "slices:soft", OURS, {}),
    ("NumPy, hard sort", "numpy_slices:hard", "numpy", {}),
    ("POT, expected plan", "pot:expected_plan", "POT", {}),
    *(
        (f"ours, Sinkhorn, {count} half-steps", "slices:sinkhorn", OURS, {"l": count})
        for count in HALF_STEPS
    ),
    ("ours, softmax", "slices:softmax", OURS, {}),
    ("ours, differential", "slices:differential", OURS, {}),
)
LARGE = METHODS[:1] + METHODS[2:3]
SMOOTH = [entry for entry in METHODS if entry[2] == OURS and entry[1] != "slices:hard"]
D = 1024


def _trials(size: Size) -> list[Trial]:
    if size == "quick":
        entries = [(entry, PAPER) for entry in METHODS] + [
            (entry, BACK) for entry in SMOOTH
        ]
        return [
            _trial(entry, stepping, "float64", 40, 8, "axis")
            for entry, stepping in entries
        ]
    paper = [
        _trial(entry, PAPER, "float32", n, D, "axis")
        for n in (50, 100, 500, 1000)
        for entry in METHODS
    ]
    back = [
        _trial(entry, BACK, "float32", n, D, "axis")
        for n in (50, 100, 500)
        for entry in SMOOTH
    ]
    many = [
        _trial(entry, MANY, "float64", n, 8, "random:8")
        for n in (100_000, 1_000_000)
        for entry in LARGE
    ]
    return [*paper, *back, *many]


def _trial(
    entry: tuple[str, str, str, dict[str, int]],
    problem: str,
    dtype: str,
    n: int,
    d: int,
    slices: str,
) -> Trial:
    method, maker, package, options = entry
    settings = {"slices": slices, "temperature": 1.0, **options}
    return Trial(
        "slices",
        method,
        maker,
        package,
        dtype,
        n,
        d,
        problem=problem,
        settings=settings,
    )


CASE = Case(
    description=(
        "One velocity of `n` standard normal tokens under random `Q` and `K`. *As the "
        "paper*: dimension 1024, a slice for each axis, compared with Sinkhorn "
        "attention after several numbers of half-steps, softmax and differential "
        "attention (shahbazi2025, Figures 3 and 4). *Forward and backward*: the "
        "gradient of the mean square of the velocities with respect to the tokens; "
        "hard sorts have none. *Random slices*: eight, in eight dimensions. NumPy "
        "sorts and gathers slice by slice; POT's plan is a dense matrix. The error of "
        "hard sorts is relative to NumPy in double precision, in units of the largest "
        "velocity; in single precision two tokens may exchange ranks, which then "
        "determines the error."
    ),
    trials=_trials,
)
