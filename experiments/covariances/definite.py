r"""Corrected figures: covariances go to zero if V is symmetric and positive definite.

The paper claims that covariances go to zero if $A + A^\top \prec 0$, for every V. This
is false (ERRATA C14), but true for softmax if also $V = V^\top \succ 0$. To see this,
let $f = \mathrm{tr}\,V\Sigma$ and let $\lambda$ be the least eigenvalue of $-(A +
A^\top)$. Then $f' = \mathrm{tr}\,V\Sigma(A + A^\top)\Sigma V \leq -\lambda|\Sigma V|^2
\leq -\lambda f^2/d$, so $1/f$ grows by at least $\lambda t/d$.

If $K = -Q$ with invertible Q, as here, $f$ also decreases to zero under L2, at the rate
$-4\,\mathrm{tr}\,V\Sigma Q^\top(I + 2Q\Sigma Q^\top)^{-1}Q\Sigma V$, and under
Sinkhorn, since $M_\Sigma\Sigma$ is then symmetric and negative. With heads of one row
each, $f' = -2\sum_h (q_h \cdot \Sigma v_h)^2$. So no covariance grows, but every
$\Sigma$ with $q_h \cdot \Sigma v_h = 0$ for all $h$ is at rest. In the plane these
$\Sigma$ form a line, which lies inside the cone for some Q and V.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from experiments.covariances.families import (
    Recipe,
    duration,
    frame_keys,
    published_steps,
    simulate,
    summary,
    value_range,
)
from experiments.covariances.figures import add_numbers
from experiments.covariances.parameters import SEED, definite, gaussian_entries
from meanfield import runs
from meanfield.dynamics import LogTime, stack_trees
from meanfield.endings import Status
from meanfield.flows import Steady, adaptive, ensemble
from meanfield.reproduce import Case, Experiment, Findings, Rows
from meanfield.spec import parse

Extra = Callable[[Findings], Findings]

CAPTION = (
    "Flows from {starts} covariances of trace one, with VVᵀ in place of the text's V, "
    "solved to tolerance until t = {t:.4g}: {converged} converge to zero, {blow_ups} "
    "blow up."
)

DRAWS = 100
END_TIME = 1e6  # so large because some of the random draws converge slowly
MAX_STEPS = 100_000  # so large because states at rest are stiff in logarithmic time
REST_DISTANCE = 1e-3  # tolerance of `Steady`, relative to the initial size
SINGLE_START = {"measure": "gaussian", "cov": 0.5}  # isotropic covariance of trace 1
FALLING_POWER = -0.5  # a trace that follows t^p goes to zero if p is below this


def with_corrected_reading(
    experiment: Experiment,
    recipe: Recipe,
    *,
    claim: str,
    description: str,
    extra: Extra | None = None,
    caption: str = "",
) -> Experiment:
    r"""The experiment with an additional, corrected picture for $VV^\top$ instead of V.

    Args:
        experiment: experiment of the figure as printed.
        recipe: parameters of this experiment.
        claim: corrected claim.
        description: description of the corrected picture.
        extra: function that adds the measurements that only this figure has.
        caption: end of the caption; `extra` adds the numbers for its placeholders.
    """
    corrected = replace(
        experiment,
        claim=claim,
        caption=f"{CAPTION} {caption}".strip(),
        table=table,
        compute=partial(_compute, recipe, extra),
        description=description,
    )
    readings = (*experiment.readings, "corrected")
    return replace(experiment, readings=readings, variants={"corrected": corrected})


def _compute(recipe: Recipe, extra: Extra | None, case: Case) -> Findings:
    """Integrates the family until the time at which the script would stop."""
    frames, values = recipe.frames(case.size), definite(recipe.text_keys(case.size))
    t = duration(published_steps(values, recipe.rule, frames), recipe.rule)
    spec = {**values, "t": t, **frame_keys(frames)}
    result, family = simulate(spec)
    numbers = {
        "reading": case.reading,
        "starts": len(result.endings),
        "t": t,
        **summary(result),
        **descent(family, np.array(values["V"])),
    }
    findings = Findings({"seed": SEED, "corrected": spec}, numbers, {"family": family})
    return findings if extra is None else extra(findings)


def descent(family: xr.Dataset, V: np.ndarray) -> dict[str, Any]:
    r"""Decay of the traces of a family, and largest increase of $\mathrm{tr}\,V\Sigma$.

    The traces follow powers of time, whose exponents are measured over the second half
    of the time.
    """
    Y, times = family["factor"].values, family["time"].values
    sizes = np.einsum("rtij,ik,rtkj->rt", Y, V, Y)
    powers = decay(times, np.sum(Y**2, axis=(2, 3)))
    finished = family["status"].values == Status.FINISHED
    return {
        "converged": int(np.sum(finished & (powers < FALLING_POWER))),
        "blow_ups": int(np.sum(family["status"].values == Status.BLOW_UP)),
        "power": value_range(powers),
        "max_increase": float(np.max(np.diff(sizes, axis=1) / sizes[:, :1])),
    }


def decay(times: np.ndarray, traces: np.ndarray) -> np.ndarray:
    """Exponents p of traces that follow t^p over the second half of the time."""
    half = int(np.argmin(np.abs(times - times[-1] / 2)))
    return np.log(traces[:, -1] / traces[:, half]) / np.log(times[-1] / times[half])


def table(numbers: Mapping[str, Any]) -> Rows:
    r"""Table of endings, decay of the traces, and largest increase of tr VΣ."""
    power = numbers["power"]
    decay_range = f"{power['min']:.3f} to {power['max']:.3f}"
    return [
        ("VVᵀ in place of V", "solved to tolerance"),
        ("endings", numbers["endings_in_words"]),
        ("p of traces ~ t^p over the second half of the time", decay_range),
        (
            "largest relative increase of tr VΣ",
            f"{max(numbers['max_increase'], 0):.1g}",
        ),
    ]


def count_definite_draws(findings: Findings) -> Findings:
    """Counts the draws of V for which $VV^T$ sends an isotropic covariance to zero."""
    spec = findings.spec["corrected"]
    draws = [definite(gaussian_entries(draw)) for draw in range(1, DRAWS + 1)]
    endings, powers = _single_start_endings(spec, draws)
    comes_to_rest = np.array(endings) == "steady"
    goes_to_zero = (np.array(endings) == "finished") & (powers < FALLING_POWER)
    heads = spec.get("heads", 1)
    is_decided = goes_to_zero | comes_to_rest | (np.array(endings) == "blow-up")
    has_ray = np.array([has_rest(draw, heads) for draw in draws])
    numbers = {
        "n_rays": int(has_rest(spec, heads)),
        "draws": DRAWS,
        "t": END_TIME,
        "endings": dict(Counter(endings)),
        "blow_ups": endings.count("blow-up"),
        "to_zero": int(np.sum(goes_to_zero)),
        "to_rest": int(np.sum(comes_to_rest)),
        "undecided": DRAWS - int(np.sum(is_decided)),
        "with_rest": int(np.sum(has_ray)),
        "to_rest_with_rest": int(np.sum(comes_to_rest & has_ray)),
        "to_zero_without_rest": int(np.sum(goes_to_zero & ~has_ray)),
    }
    return add_numbers(findings, {"others": numbers})


def _single_start_endings(
    spec: Mapping[str, Any], draws: list[dict[str, Any]]
) -> tuple[list[str], np.ndarray]:
    """Endings of flows from one isotropic covariance, and decay of its trace."""
    shared = {key: spec[key] for key in ("attention", "heads") if key in spec}
    keys = {**shared, **SINGLE_START, "t": 1.0}
    members = [runs.member(parse({**keys, **draw})) for draw in draws]
    ts = np.log1p(END_TIME * np.array([0.0, 0.5, 1.0]))
    trajectories = ensemble(
        LogTime(stack_trees([member.dynamics for member in members])),
        members[0].measure,
        ts,
        in_axes=(0, None),
        stepping=adaptive(max_steps=MAX_STEPS),
        stop=Steady(REST_DISTANCE),
    )
    traces = np.sum(np.asarray(trajectories.coordinates[1]) ** 2, axis=(2, 3))
    endings = [Status(int(code)).ending for code in np.asarray(trajectories.code)]
    return endings, decay(np.expm1(ts), traces)


def has_rest(values: Mapping[str, Any], heads: int) -> bool:
    r"""Whether some covariance $\Sigma \neq 0$ in the plane is at rest.

    Such a covariance has $q_h \cdot \Sigma v_h = 0$ for each head $h$. With one head
    there is none, since $Q$ is invertible. With two heads, the symmetric matrices with
    this property form a line.
    """
    if heads == 1:
        return False
    rows = zip(np.array(values["Q"]), np.array(values["V"]), strict=True)
    forms = [(q[0] * v[0], q[0] * v[1] + q[1] * v[0], q[1] * v[1]) for q, v in rows]
    first, mixed, second = np.cross(forms[0], forms[1])
    return bool(first * second >= mixed**2)
