"""Velocities, flows and blow-ups of the library, as a reference for pages.

`python tests/live_table.py` writes `tests/data/live/table.json` anew.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from meanfield import flow, runs
from meanfield.flows import Isotropic, adaptive
from meanfield.pages.live import law_of, setting_of
from meanfield.spec import parse

TABLE = Path(__file__).parent / "data" / "live" / "table.json"
SHARE = 0.45  # share of the time to a blow-up at which flows are compared
LATEST = 1.0  # end time without a blow-up
RTOL = 1e-11  # tolerance of a step, at most a hundredth of that of pages
FRAMES = np.append(0.0, np.geomspace(0.01, 10.0, 60))

ROTATION = [[0.8, 0.5], [-0.3, 0.6]]
LEFT = [[-0.7, 0.4], [0.1, -0.9]]
WIDE = [[1.5, 0.4], [0.4, 0.7]]
CLOUD = {"n": 14, "d": 2, "init": "gaussian", "cov": WIDE, "mean": [0.4, -0.7]}
ELLIPSE = {"measure": "gaussian", "cov": WIDE, "mean": [0.4, -0.7]}
SPHERE = {"space": "sphere", "init": "uniform", "n": 13, "beta": 0.5}
FIRST = [0.0, *np.linspace(0.1, 2.0, 13)]  # a token without weight

CASES: dict[str, dict[str, Any]] = {
    "tokens softmax": {**CLOUD, "A": ROTATION, "V": LEFT},
    "tokens softmax, negative": {**CLOUD, "A": -1.0, "V": 1.0, "epsilon": 0.5},
    "tokens softmax, two heads": {**CLOUD, "A": [ROTATION, LEFT], "V": [1, -1]},
    "tokens softmax, rows of two heads": {
        **CLOUD,
        "A": ROTATION,
        "V": LEFT,
        "heads": 2,
    },
    "tokens softmax, causal": {**CLOUD, "A": ROTATION, "V": LEFT, "mask": "causal"},
    "tokens softmax, weighted": {**CLOUD, "A": ROTATION, "V": LEFT, "weights": FIRST},
    "tokens softmax, line": {"n": 15, "A": 1.0, "V": -1.0, "init": "gaussian"},
    "tokens softmax, space": {"n": 12, "d": 3, "Q": "normal", "K": "normal", "V": 0.5},
    "tokens softmax, far away": {**CLOUD, "A": 1.0, "V": -1.0, "mean": [3e3, -2e3]},
    "tokens l2": {**CLOUD, "attention": "l2", "A": ROTATION, "V": LEFT},
    "tokens l2, queries and keys": {
        **CLOUD,
        "attention": "l2",
        "Q": [[0.5, 1.0]],
        "K": [[1.0, -0.2]],
        "V": -1.0,
    },
    "tokens l2, far away": {
        **CLOUD,
        "attention": "l2",
        "A": 1.0,
        "V": -1.0,
        "mean": [300.0, -200.0],
    },
    "tokens l2, causal heads": {
        **CLOUD,
        "attention": "l2",
        "A": [ROTATION, 1.0],
        "V": [LEFT, 0.5],
        "mask": "causal",
    },
    "tokens l2, scaled": {
        **CLOUD,
        "attention": "l2",
        "A": ROTATION,
        "V": LEFT,
        "scale": "sqrt-k",
    },
    "tokens sigmoid": {**CLOUD, "attention": "sigmoid", "A": ROTATION, "V": LEFT},
    "tokens sigmoid, heads": {
        **CLOUD,
        "attention": "sigmoid",
        "A": [1, -1],
        "V": [ROTATION, LEFT],
    },
    "tokens sigmoid, causal": {
        **CLOUD,
        "attention": "sigmoid",
        "A": ROTATION,
        "V": LEFT,
        "mask": "causal",
        "weights": FIRST,
    },
    "tokens linear": {**CLOUD, "attention": "linear", "A": ROTATION, "V": LEFT},
    "tokens linear, growing": {**CLOUD, "attention": "linear", "A": 1.0, "V": 1.0},
    "tokens linear, causal": {
        **CLOUD,
        "attention": "linear",
        "A": LEFT,
        "V": 0.5,
        "mask": "causal",
    },
    "tokens sinkhorn": {**CLOUD, "attention": "sinkhorn", "A": 1.0, "V": -1.0},
    "tokens sinkhorn, turned": {
        **CLOUD,
        "attention": "sinkhorn",
        "A": ROTATION,
        "V": LEFT,
    },
    "tokens sinkhorn, sharp": {
        **CLOUD,
        "attention": "sinkhorn",
        "A": 1.0,
        "V": -0.1,
        "epsilon": 0.2,
    },
    "tokens sinkhorn, weighted heads": {
        **CLOUD,
        "attention": "sinkhorn",
        "A": [1, -1],
        "V": [1, LEFT],
        "weights": FIRST,
    },
    "tokens sinkhorn, half-steps": {
        **CLOUD,
        "attention": "sinkhorn",
        "A": ROTATION,
        "V": LEFT,
        "iterations": 5,
    },
    "gaussian softmax": {**ELLIPSE, "A": ROTATION, "V": LEFT},
    "gaussian softmax, blow-up": {**ELLIPSE, "A": WIDE, "V": 1.0},
    "gaussian softmax, line": {"measure": "gaussian", "A": 1.0, "V": 1.0, "cov": 2.0},
    "gaussian softmax, heads": {**ELLIPSE, "A": [ROTATION, LEFT], "V": [1, -1]},
    "gaussian softmax, singular": {
        **ELLIPSE,
        "A": LEFT,
        "V": 1.0,
        "cov": [[1, 1], [1, 1]],
    },
    "gaussian softmax, noise": {**ELLIPSE, "A": -1.0, "V": 1.0, "noise": 0.3},
    "gaussian softmax, noise from a point": {
        **ELLIPSE,
        "A": -1.0,
        "V": 1.0,
        "noise": 0.3,
        "cov": 0.0,
    },
    "gaussian l2": {
        **ELLIPSE,
        "attention": "l2",
        "A": ROTATION,
        "V": LEFT,
        "epsilon": 2.0,
    },
    "gaussian l2, singular keys": {
        **ELLIPSE,
        "attention": "l2",
        "Q": [[0.5, 1.0]],
        "K": [[1.0, -0.2]],
        "V": 1.0,
    },
    "gaussian l2, four dimensions": {
        "measure": "gaussian",
        "attention": "l2",
        "d": 4,
        "Q": "normal",
        "K": "normal",
        "V": "normal",
        "cov": 0.5,
        "epsilon": 4.0,
    },
    "gaussian linear": {**ELLIPSE, "attention": "linear", "A": ROTATION, "V": LEFT},
    "gaussian linear, blow-up": {**ELLIPSE, "attention": "linear", "A": 1.0, "V": 1.0},
    "gaussian sinkhorn": {**ELLIPSE, "attention": "sinkhorn", "A": ROTATION, "V": LEFT},
    "gaussian sinkhorn, sharp heads": {
        **ELLIPSE,
        "attention": "sinkhorn",
        "A": [1, LEFT],
        "V": [-1, 0.2],
        "epsilon": 0.2,
    },
    "gaussian sinkhorn, half-steps": {
        **ELLIPSE,
        "attention": "sinkhorn",
        "A": 0.3,
        "V": -1.0,
        "iterations": 5,
    },
    "tokens exp": {**CLOUD, "attention": "exp", "A": ROTATION, "V": LEFT},
    "tokens exp, blow-up": {"attention": "exp", "n": 8, "A": 0.5, "V": 1.0},
    "sphere softmax": {**SPHERE, "d": 3, "Q": "normal", "K": "normal", "V": 0.5},
    "sphere sinkhorn": {**SPHERE, "d": 3, "attention": "sinkhorn", "A": -1.0, "V": 1.0},
    "circle exp, causal heads": {
        **SPHERE,
        "space": "sphere:2",
        "d": 2,
        "attention": "exp",
        "A": [ROTATION, LEFT],
        "V": [1.0, LEFT],
        "mask": "causal",
    },
}


def rows() -> Iterator[dict[str, Any]]:
    """The rows of the table: a problem, its velocity, its flow, its blow-up."""
    for name, keys in CASES.items():
        yield row(name, keys)


def row(name: str, keys: dict[str, Any]) -> dict[str, Any]:
    """One row; the flow is compared at the last frame before `SHARE` of a blow-up."""
    spec = parse({"t": float(FRAMES[-1]), **_add_head_count(keys)})
    member = runs.member(spec)
    law = law_of(member.dynamics, member.measure)
    setting = setting_of(spec, law, "")
    noise = Isotropic(spec.noise) if spec.noise else None
    ts, steps = jnp.asarray(FRAMES), adaptive(rtol=RTOL)
    run = flow(member.dynamics, member.measure, ts, stepping=steps, noise=noise)
    is_star = run.status.ending == "blow-up"
    star = [float(run.t_star), float(run.t_star_error)] if is_star else None
    latest = SHARE * star[0] if star else LATEST
    index = int(np.searchsorted(FRAMES, latest, side="right")) - 1
    end = run.frame(index)
    mean, covariance = runs.moments_of(end)
    field = member.dynamics.field(0.0, member.measure)
    return {
        "name": name,
        "problem": {**asdict(law), **asdict(setting)},
        "velocity": None if noise else flat(member.measure.transport(field)),
        "ending": run.status.ending,
        "t_star": star,
        "t": float(FRAMES[index]),
        "mean": mean.tolist(),
        "covariance": covariance.tolist(),
        "state": None if noise else flat(end.coordinates),
    }


def flat(parts: Any) -> list[float]:
    """Coordinates as a flat list, in the order of a page."""
    arrays = parts if isinstance(parts, tuple) else (parts,)
    return [float(number) for array in arrays for number in np.ravel(array)]


def _add_head_count(keys: dict[str, Any]) -> dict[str, Any]:
    """Adds the number of heads where values are lists of matrices."""
    values = keys["V"]
    if not isinstance(values, list) or _is_matrix(values):
        return keys
    return {**keys, "heads": len(values)}


def _is_matrix(value: list[Any]) -> bool:
    return all(isinstance(row, list) and not isinstance(row[0], list) for row in value)


if __name__ == "__main__":
    import jax

    jax.config.update("jax_enable_x64", True)
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in rows())
    TABLE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
