r"""Corrected figures: covariances go to zero if V is symmetric and positive definite.

The paper claims that covariances go to zero if $A + A^\top \prec 0$, for every V, which
is false (ERRATA C14). If also $V = V^\top \succ 0$ it is true for softmax. Let $f =
\mathrm{tr}\,V\Sigma$ and let $\lambda$ be the least eigenvalue of $-(A + A^\top)$; then

$f' = \mathrm{tr}\,V\Sigma(A + A^\top)\Sigma V \leq -\lambda|\Sigma V|^2 \leq -\lambda
f^2/d$, so that $1/f$ grows by at least $\lambda t/d$.

For $K = -Q$ with invertible Q, as here, the same $f$ falls to zero under L2, at the
rate $-4\,\mathrm{tr}\,V\Sigma Q^\top(I + 2Q\Sigma Q^\top)^{-1}Q\Sigma V$, and under
Sinkhorn, since $M_\Sigma\Sigma$ is then symmetric and negative. With heads of one row
each, $f' = -2\sum_h (q_h \cdot \Sigma v_h)^2$: nothing grows, but every $\Sigma$ with
$q_h \cdot \Sigma v_h = 0$ for all $h$ is at rest. In the plane these form a line, which
for some Q and V lies inside the cone.
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
    finely,
    published,
    simulated,
    spread,
    summary,
)
from experiments.covariances.figures import with_numbers
from experiments.covariances.parameters import SEED, definite, gaussian_entries
from meanfield import runs
from meanfield.dynamics import LogTime, stack_trees
from meanfield.endings import Status
from meanfield.flows import Steady, adaptive, ensemble
from meanfield.reproduce import Case, Experiment, Findings
from meanfield.spec import parse

Extra = Callable[[Findings], Findings]

DRAWS = 100
LAST = 1e6  # last time of the other draws, some of which are slow
MOST_STEPS = 100_000  # in logarithmic time, in which states at rest are stiff
SETTLED = 1e-3  # remaining distance at rest, relative to the initial size
ALONE = {"measure": "gaussian", "cov": 0.5}  # one start of trace one
FALLING = -0.5  # a trace that vanishes falls like 1 / t; any other like t ** 0


def converging(
    experiment: Experiment,
    recipe: Recipe,
    *,
    claim: str,
    seen: str,
    extra: Extra | None = None,
    caption: str = "",
) -> Experiment:
    r"""Experiment with an additional corrected reading, with $VV^\top$ in place of V.

    Args:
        experiment: experiment of the figure as printed.
        recipe: its parameters.
        claim: corrected claim.
        seen: description of the corrected picture.
        extra: function that adds the measurements of this figure alone.
        caption: end of the caption, with fields that `extra` adds.
    """
    corrected = replace(
        experiment,
        claim=claim,
        caption=f"{{sentence}} {caption}".strip(),
        compute=partial(_compute, recipe, extra),
        description=seen,
    )
    readings = (*experiment.readings, "corrected")
    return replace(experiment, readings=readings, variants={"corrected": corrected})


def _compute(recipe: Recipe, extra: Extra | None, case: Case) -> Findings:
    """Solves the family until the time at which the script would stop."""
    frames, values = recipe.frames(case.size), definite(recipe.text_of(case.size))
    longest = duration(published(values, recipe.rule, frames), recipe.rule)
    spec = {**values, "t": longest, **finely(frames)}
    result, family = simulated(spec)
    numbers = {
        "reading": case.reading,
        "starts": len(result.endings),
        "t": longest,
        **summary(result),
        **descent(family, np.array(values["V"])),
    }
    numbers["sentence"] = sentence(numbers)
    findings = Findings({"seed": SEED, "corrected": spec}, numbers, {"family": family})
    return findings if extra is None else extra(findings)


def descent(family: xr.Dataset, V: np.ndarray) -> dict[str, Any]:
    r"""Decay of a family: powers of t, and the largest rise of $\mathrm{tr}\,V\Sigma$.

    The powers are those of the traces over the second half of the time.
    """
    Y, times = family["factor"].values, family["time"].values
    sizes = np.einsum("rtij,ik,rtkj->rt", Y, V, Y)
    powers = decay(times, np.sum(Y**2, axis=(2, 3)))
    finished = family["status"].values == Status.FINISHED
    return {
        "converged": int(np.sum(finished & (powers < FALLING))),
        "blow_ups": int(np.sum(family["status"].values == Status.BLOW_UP)),
        "power": spread(powers),
        "rise": float(np.max(np.diff(sizes, axis=1) / sizes[:, :1])),
    }


def decay(times: np.ndarray, traces: np.ndarray) -> np.ndarray:
    """Powers of time with which the rows of traces change over its second half."""
    half = int(np.argmin(np.abs(times - times[-1] / 2)))
    return np.log(traces[:, -1] / traces[:, half]) / np.log(times[-1] / times[half])


def sentence(numbers: Mapping[str, Any]) -> str:
    """Sentences of the caption, from the numbers."""
    power, rise = numbers["power"], numbers["rise"]
    falls = "falls throughout" if rise <= 0 else f"rises by {rise:.1g} at most"
    return (
        f"Flows from {numbers['starts']} covariances of trace one with VVᵀ in place of "
        "the text's V, symmetric and positive definite, solved to tolerance until t = "
        f"{numbers['t']:.4g}: {numbers['endings_in_words']}; {numbers['converged']} of "
        f"{numbers['starts']} converge to zero, {numbers['blow_ups']} blow up. Over "
        "the second half of the time traces fall like t^p with p from "
        f"{power['min']:.3f} to {power['max']:.3f}, and the trace of V times the "
        f"covariance {falls}."
    )


def over_definite_draws(findings: Findings) -> Findings:
    """Counts how many other draws, with $VV^T$, send an isotropic start to zero."""
    spec = findings.spec["corrected"]
    draws = [definite(gaussian_entries(draw)) for draw in range(1, DRAWS + 1)]
    endings, powers = _alone(spec, draws)
    rests = np.array(endings) == "steady"
    zero = (np.array(endings) == "finished") & (powers < FALLING)
    heads = spec.get("heads", 1)
    rays = np.array([has_rest(draw, heads) for draw in draws])
    here = ("no covariance but zero is", "a ray of others is")[has_rest(spec, heads)]
    numbers = {
        "here": here,
        "draws": DRAWS,
        "t": LAST,
        "endings": dict(Counter(endings)),
        "blow_ups": endings.count("blow-up"),
        "to_zero": int(np.sum(zero)),
        "to_rest": int(np.sum(rests)),
        "open": DRAWS - int(np.sum(zero | rests)) - endings.count("blow-up"),
        "with_rest": int(np.sum(rays)),
        "to_rest_with_rest": int(np.sum(rests & rays)),
        "to_zero_without_rest": int(np.sum(zero & ~rays)),
    }
    return with_numbers(findings, {"others": numbers})


def _alone(
    spec: Mapping[str, Any], draws: list[dict[str, Any]]
) -> tuple[list[str], np.ndarray]:
    """Endings of one isotropic start for all draws, and the powers of its trace."""
    shared = {key: spec[key] for key in ("attention", "heads") if key in spec}
    keys = {**shared, **ALONE, "t": 1.0}
    members = [runs.member(parse({**keys, **draw})) for draw in draws]
    ts = np.array([0.0, np.log1p(LAST / 2), np.log1p(LAST)])  # with half of the time
    trajectories = ensemble(
        LogTime(stack_trees([member.dynamics for member in members])),
        members[0].measure,
        ts,
        in_axes=(0, None),
        stepping=adaptive(max_steps=MOST_STEPS),
        stop=Steady(SETTLED),
    )
    traces = np.sum(np.asarray(trajectories.coordinates[1]) ** 2, axis=(2, 3))
    endings = [Status(int(code)).ending for code in np.asarray(trajectories.code)]
    return endings, decay(np.expm1(ts), traces)


def has_rest(values: Mapping[str, Any], heads: int) -> bool:
    r"""Whether some $\Sigma \neq 0$ in the plane has $q_h \cdot \Sigma v_h = 0$.

    With one head there is none, since $Q$ is invertible; with two heads the solutions
    are a line of symmetric matrices.
    """
    if heads == 1:
        return False
    rows = zip(np.array(values["Q"]), np.array(values["V"]), strict=True)
    forms = [(q[0] * v[0], q[0] * v[1] + q[1] * v[0], q[1] * v[1]) for q, v in rows]
    first, mixed, second = np.cross(forms[0], forms[1])
    return bool(first * second >= mixed**2)
