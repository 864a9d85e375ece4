"""Compares covariances for the parameters of a paper's text and of its script."""

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr

from experiments.covariances.parameters import SEED
from meanfield import runs
from meanfield.endings import Status
from meanfield.reproduce import Case, Findings, Size
from meanfield.spec import parse
from meanfield.storage import ENDING_FLAGS
from meanfield.theorems.covariances.clipped_euler import (
    ClippedEuler,
    Rule,
    clipped_euler,
)

FRAMES = {"paper": 321, "quick": 121}
RTOL = 1e-10
MAX_STEPS = 20_000  # only members that overflow double precision need more steps
PASSED = "passed the bound"  # name of an ending in the script
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Recipe:
    """Parameters of a panel of castin2025, in the text and in the published script.

    Attributes:
        text: keys of a spec, with the values in the text.
        code: keys that have other values in the script.
        rule: step size and thresholds of the script.
        quick: initial covariances of the quick size.
        finer: factor on the number of frames; above one for panels with fast members.
    """

    text: Values
    rule: Rule
    code: Values = field(default_factory=dict)
    quick: str = "grid:7"
    finer: int = 1

    def text_keys(self, size: Size) -> dict[str, Any]:
        """Keys of a spec with the values in the text, for a problem size."""
        starts = self.quick if size == "quick" else self.text["starts"]
        return {"measure": "gaussian", **self.text, "starts": starts}

    def frames(self, size: Size) -> int:
        """Number of frames for a problem size."""
        return self.finer * (FRAMES[size] - 1) + 1


class Solution(NamedTuple):
    """Endings, blow-up times and final covariances of an accurately solved family."""

    endings: list[str]
    t_star: np.ndarray
    covariances: np.ndarray


def findings_of(recipe: Recipe, case: Case) -> Findings:
    """Findings for two families: one with the text's parameters, one with the script's.

    The picture shows the family that `case` selects. The family of the text is
    integrated until the time at which the script would stop.
    """
    frames = recipe.frames(case.size)
    text = recipe.text_keys(case.size)
    code = {**text, **recipe.code}
    steps = published_steps(code, recipe.rule, frames)
    text_steps = published_steps(text, recipe.rule, frames) if recipe.code else steps
    spec = {**text, "t": duration(text_steps, recipe.rule), **frame_keys(frames)}
    result, data = simulate(spec)
    exact = result
    if recipe.code:
        exact = solve({**code, "t": duration(steps, recipe.rule), **frame_keys(frames)})
    numbers = {
        "starts": len(result.endings),
        "t": spec["t"],
        **summary(result),
        "code": euler_summary(steps, recipe.rule),
        "code_against_exact": script_errors(steps, recipe.rule, exact),
    }
    picture = data if case.reading == "text" else as_dataset(steps, recipe.rule.dt)
    script = {**code, "euler": recipe.rule._asdict()}
    return Findings(
        spec={"seed": SEED, "text": spec, "code": script},
        numbers=numbers,
        data={"family": picture, "ends": _ends(steps, result, exact)},
    )


def _ends(steps: ClippedEuler, result: Solution, exact: Solution) -> xr.Dataset:
    """Initial and final covariances; `exact` solves the script's family accurately."""
    covariances = {"start": steps.covariances[:, 0], "code": steps.final}
    covariances |= {"text": result.covariances, "exact": exact.covariances}
    square = ("run", "row", "column")
    ends = xr.Dataset({k: (square, np.asarray(v)) for k, v in covariances.items()})
    ends["code_steps"] = "run", np.asarray(steps.n_steps)
    ends["code_ending"] = "run", ending_names(steps)
    return ends


def frame_keys(frames: int) -> dict[str, Any]:
    """Keys for frames and tolerance; figures share them, so flows compile only once."""
    pace = {"spacing": "both", "frames": frames, "segment": frames}
    return {**pace, "max_steps": MAX_STEPS, "rtol": RTOL}


def duration(steps: ClippedEuler, rule: Rule) -> float:
    """Last time that any member reaches in the published script."""
    return rule.dt * float(np.max(steps.n_steps))


def published_steps(values: Values, rule: Rule, frames: int) -> ClippedEuler:
    """Integrates the family of a spec by the Euler steps of the published script."""
    members = runs.start(parse({**values, "t": 1.0})).members
    covariances = np.stack([runs.moments_of(m.measure)[1] for m in members])
    return clipped_euler(members[0].dynamics, jnp.asarray(covariances), rule, frames)


def solve(values: Values) -> Solution:
    """Integrates a spec's family in adaptive steps; returns only the final states."""
    return _solution(runs.execute(parse(values)))


def simulate(values: Values) -> tuple[Solution, xr.Dataset]:
    """Integrates a spec's family in adaptive steps; returns final states and frames."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "family.zarr"
        result = runs.execute(parse(values), out=store)
        return _solution(result), runs.dataset(store).load()


def _solution(result: runs.Result) -> Solution:
    return Solution(
        [outcome.name for outcome in result.outcomes],
        np.array([outcome.t_star for outcome in result.outcomes]),
        np.stack([runs.moments_of(measure)[1] for measure in result.measures]),
    )


def as_dataset(steps: ClippedEuler, dt: float) -> xr.Dataset:
    """Covariances of the script, as a dataset in the format of a Gaussian run.

    The last frame is at the end of the longest-running member. A member that stops
    earlier stays constant.
    """
    end = int(np.max(steps.n_steps))
    n_frames = int(np.searchsorted(steps.steps, end)) + 1
    values, U = np.linalg.eigh(np.asarray(steps.covariances)[:, :n_frames])
    factor = U * np.sqrt(np.maximum(values, 0))[..., None, :]
    n, frames, d, _ = factor.shape
    nan = np.full(n, np.nan)
    return xr.Dataset(
        {
            "time": ("time", dt * np.minimum(steps.steps[:n_frames], end)),
            "mean": (("run", "time", "coord"), np.zeros((n, frames, d))),
            "factor": (("run", "time", "coord", "rank"), factor),
            "status": ("run", np.asarray(steps.code, np.int8), dict(ENDING_FLAGS)),
            "stop_time": ("run", dt * np.asarray(steps.n_steps)),
            "t_star": ("run", nan),
            "t_star_error": ("run", nan),
        },
        attrs={"kind": "gaussian"},
    )


def summary(result: Solution) -> dict[str, Any]:
    """Endings, blow-up times and final traces of a family."""
    traces = np.trace(result.covariances, axis1=1, axis2=2)
    is_bounded = np.array([name != "blow-up" for name in result.endings])
    return {
        "endings": dict(Counter(result.endings)),
        "endings_in_words": format_counts(result.endings),
        "t_star": value_range(result.t_star[~is_bounded]),
        "trace_at_end": value_range(traces[is_bounded]),
    }


def euler_summary(steps: ClippedEuler, rule: Rule) -> dict[str, Any]:
    """Endings of the members in the script, and the script's total number of steps."""
    endings = ending_names(steps)
    return {
        "endings": dict(Counter(endings)),
        "endings_in_words": format_counts(endings),
        "steps": int(np.sum(steps.n_steps)),
        "t": duration(steps, rule),
    }


def script_errors(steps: ClippedEuler, rule: Rule, exact: Solution) -> dict[str, Any]:
    """Errors of the script, compared with the exact solution for its parameters.

    The script calls a member divergent if its trace exceeds a bound; such a member does
    not always blow up.
    """
    script_endings, final = ending_names(steps), np.asarray(steps.final)
    pairs = Counter(
        f"{a} in the script, {b} solved"
        for a, b in zip(script_endings, exact.endings, strict=True)
    )
    diverged = np.array([name == PASSED for name in script_endings])
    blows_up = diverged & np.isfinite(exact.t_star)
    at_rest = np.array([name == "steady" for name in script_endings])
    time_errors = (
        rule.dt * np.asarray(steps.n_steps)[blows_up] / exact.t_star[blows_up] - 1
    )
    distances = np.linalg.norm(final - exact.covariances, axis=(1, 2))[at_rest]
    return {
        "endings": dict(pairs),
        "diverged": int(diverged.sum()),
        "diverged_and_blow_up": int(blows_up.sum()),
        "blow_up_time_relative_error": value_range(time_errors),
        "distance_at_rest": value_range(distances),
    }


def ending_names(steps: ClippedEuler) -> list[str]:
    """Names of the endings of the members in the published script.

    The script stops where the trace passes a bound, which does not imply a blow-up.
    """
    endings = [Status(int(code)) for code in np.asarray(steps.code)]
    return [PASSED if end is Status.BLOW_UP else end.ending for end in endings]


def format_counts(endings: list[str]) -> str:
    """Endings with their counts, such as `30 blow-up, 2 finished`."""
    return ", ".join(
        f"{count} {name}" for name, count in Counter(endings).most_common()
    )


def value_range(values: np.ndarray) -> dict[str, float] | None:
    """Minimum, median and maximum of the finite values; `None` if there are none."""
    values = values[np.isfinite(values)]
    if values.size == 0:
        return None
    return {
        "min": float(values.min()),
        "median": float(np.median(values)),
        "max": float(values.max()),
    }
