r"""Covariances that go to zero because V is symmetric and positive definite.

Where $A + A^\top \prec 0$ covariances are printed to go to zero whatever V is, which is
false (ERRATA C14). Where also $V = V^\top \succ 0$ it is true of softmax, by $f =
\mathrm{tr}\,V\Sigma$: with $\lambda$ the least eigenvalue of $-(A + A^\top)$,

$f' = \mathrm{tr}\,V\Sigma(A + A^\top)\Sigma V \leq -\lambda|\Sigma V|^2 \leq -\lambda
f^2/d$, so that $1/f$ grows by $\lambda t/d$ at least.

With $K = -Q$ and Q invertible, as here, the same $f$ falls to zero under L2, at the
rate $-4\,\mathrm{tr}\,V\Sigma Q^\top(I + 2Q\Sigma Q^\top)^{-1}Q\Sigma V$, and under
Sinkhorn, since $M_\Sigma\Sigma$ is symmetric and negative then. Under heads of one row
each, $f' = -2\sum_h (q_h \cdot \Sigma v_h)^2$: nothing grows, but all those $\Sigma$
rest where every $q_h \cdot \Sigma v_h$ vanishes. In the plane that is a line, and some
Q and V have it inside the cone.
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
from meanfield.dynamics import LogTime, stacked
from meanfield.endings import Status
from meanfield.flows import Steady, adaptive, ensemble
from meanfield.reproduce import Case, Experiment, Findings
from meanfield.spec import parse

Extra = Callable[[Findings], Findings]

DRAWS = 100
LAST = 1e6  # of other draws, some of them slow
MOST_STEPS = 100_000  # in logarithmic time, where rest is stiff
SETTLED = 1e-3  # the way left of what comes to rest, of its first size
ALONE = {"measure": "gaussian", "cov": 0.5}  # one start of trace one
FALLING = -0.5  # a trace that vanishes falls like 1 / t, one that does not like t ** 0


def converging(
    experiment: Experiment,
    recipe: Recipe,
    *,
    claim: str,
    seen: str,
    extra: Extra | None = None,
    caption: str = "",
) -> Experiment:
    r"""A figure that has a corrected reading too, with $VV^\top$ for V.

    Args:
        experiment: the figure as printed.
        recipe: of that figure.
        claim: what is true.
        seen: what a reader sees in the corrected picture.
        extra: adds what only this figure measures.
        caption: the end of the caption, with fields of what `extra` adds.
    """
    corrected = replace(
        experiment,
        claim=claim,
        caption=f"{{sentence}} {caption}".strip(),
        compute=partial(_compute, recipe, extra),
        seen=seen,
    )
    readings = (*experiment.readings, "corrected")
    return replace(experiment, readings=readings, variants={"corrected": corrected})


def _compute(recipe: Recipe, extra: Extra | None, case: Case) -> Findings:
    """The family, for as long as the script would go on with its equation."""
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
    r"""How a family goes down: the power of t, and the steps of $\mathrm{tr}\,V\Sigma$.

    The power is that of the trace over the second half of the time.
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
    """The powers of time by which traces, a row each, change over its second half."""
    half = int(np.argmin(np.abs(times - times[-1] / 2)))
    return np.log(traces[:, -1] / traces[:, half]) / np.log(times[-1] / times[half])


def sentence(numbers: Mapping[str, Any]) -> str:
    """What the numbers say, for captions."""
    power, rise = numbers["power"], numbers["rise"]
    falls = "falls throughout" if rise <= 0 else f"rises by {rise:.1g} at most"
    return (
        "V is symmetric and positive definite: VVᵀ of the V that the text draws. "
        f"Solved from {numbers['starts']} starts of trace one to t = "
        f"{numbers['t']:.4g}: {numbers['endings_in_words']}; {numbers['converged']} of "
        f"{numbers['starts']} converge to zero, {numbers['blow_ups']} blow up. Over "
        "the second half of the time traces fall like powers of t between "
        f"{power['min']:.3f} and {power['max']:.3f}, and the trace of V times the "
        f"covariance {falls}."
    )


def over_definite_draws(findings: Findings) -> Findings:
    """How many other draws, V made definite, send one isotropic start to zero."""
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
    """How one isotropic start ends with each draw, and the power of its trace."""
    shared = {key: spec[key] for key in ("attention", "heads") if key in spec}
    keys = {**shared, **ALONE, "t": 1.0}
    members = [runs.member(parse({**keys, **draw})) for draw in draws]
    ts = np.array([0.0, np.log1p(LAST / 2), np.log1p(LAST)])  # with half of the time
    trajectories = ensemble(
        LogTime(stacked([member.dynamics for member in members])),
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

    One head has none, since $Q$ is invertible; two have a line of symmetric matrices.
    """
    if heads == 1:
        return False
    rows = zip(np.array(values["Q"]), np.array(values["V"]), strict=True)
    forms = [(q[0] * v[0], q[0] * v[1] + q[1] * v[0], q[1] * v[1]) for q, v in rows]
    first, mixed, second = np.cross(forms[0], forms[1])
    return bool(first * second >= mixed**2)
