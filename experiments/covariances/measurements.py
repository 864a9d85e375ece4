"""Measurements for single figures: limits, and variants of a family."""

import jax
import jax.numpy as jnp
import numpy as np

from experiments.covariances.families import format_counts, solve, value_range
from experiments.covariances.figures import add_numbers
from experiments.covariances.parameters import gaussian_entries
from meanfield import Gaussian, Heads, attentions, runs
from meanfield.dynamics import AbstractDynamics, stack_trees
from meanfield.fields import Affine
from meanfield.flows import adaptive, ensemble, status_counts
from meanfield.linalg import psd_sqrt
from meanfield.plotting import cone_coordinates
from meanfield.reproduce import Findings
from meanfield.spec import parse

DRAWS = 100
SINGLE_START = {"measure": "gaussian", "cov": 0.5, "t": 10.0}  # isotropic with trace 1


def distance_to_line(findings: Findings, q: np.ndarray) -> Findings:
    r"""Measures the distance between final covariances and their limits in closed form.

    The closed form is $ww^\top / (w^\top\Sigma_0^{-1}w)$ with $|w| = 1$, $w \perp q$.
    """
    ends = findings.data["ends"]
    w = np.array([-q[1], q[0]]) / np.linalg.norm(q)
    inverse = np.linalg.inv(ends["start"].values)
    limits = np.outer(w, w) / (inverse @ w @ w)[:, None, None]
    distances = {
        name: value_range(np.linalg.norm(ends[end].values - limits, axis=(1, 2)))
        for name, end in (("distance", "text"), ("distance_of_code", "code"))
    }
    ray = cone_coordinates(np.outer(w, w))
    return add_numbers(findings, {"limit": distances}, ray[None])


def distance_to_plane(findings: Findings, q: np.ndarray) -> Findings:
    r"""Measures how flat the set of final covariances is, and its angle to a plane.

    Exact limits form the plane $q^\top\Sigma e_1 = 0$.
    """
    points = cone_coordinates(findings.data["ends"]["text"].values)
    _, sizes, axes = np.linalg.svd(points, full_matrices=False)
    normal = np.array([q[0], q[1], q[0]]) / np.linalg.norm([q[0], q[1], q[0]])
    plane = {
        "flatness": float(sizes[-1] / sizes[0]),
        "angle": float(np.arccos(min(1.0, abs(float(axes[-1] @ normal))))),
    }
    # The rows of Q and K are divided among two heads; a single row goes to the first.
    rows = np.array_split(np.atleast_2d(q), 2)[1]
    A = -rows.T @ rows
    second = attentions["softmax"](A, np.eye(2), np.diag([0.0, 1.0]))
    rate = rates(second, findings.data["ends"]["start"].values)
    head = {"rows": len(rows), "rate": float(np.max(np.abs(rate)))}
    basis = np.linalg.svd(normal[None])[2][1:]
    return add_numbers(findings, {"plane": plane, "second_head": head}, basis)


def compare_l2(findings: Findings) -> Findings:
    """Measures how far the final covariances are from their counterparts under L2."""
    l2 = solve({**findings.spec["text"], "attention": "l2"})
    ends = findings.data["ends"]["text"].values
    distance = value_range(np.linalg.norm(l2.covariances - ends, axis=(1, 2)))
    numbers = {"distance": distance, "endings": format_counts(l2.endings)}
    return add_numbers(findings, {"l2": numbers})


def compare_one_head(findings: Findings) -> Findings:
    """Compares a single head with softmax, and counts the endings of its flows."""
    spec = findings.spec["text"]
    attention = attentions["softmax"](*(np.array(spec[key]) for key in "QKV"))
    starts = findings.data["ends"]["start"].values
    gap = rates(Heads(stack_trees([attention])), starts) - rates(attention, starts)
    single = solve({**findings.spec["text"], "heads": 1})
    endings = format_counts(single.endings)
    numbers = {"gap": float(np.max(np.abs(gap))), "endings": endings}
    return add_numbers(findings, {"one_head": numbers})


def count_random_values(findings: Findings) -> Findings:
    """Counts draws of Q and V under which an isotropic covariance grows or shrinks."""
    spec = findings.spec["text"]
    shared = {key: spec[key] for key in ("attention", "heads") if key in spec}
    members = [
        runs.member(parse({**shared, **gaussian_entries(draw), **SINGLE_START}))
        for draw in range(1, DRAWS + 1)
    ]
    trajectories = ensemble(
        stack_trees([member.dynamics for member in members]),
        members[0].measure,
        np.array([0.0, SINGLE_START["t"]]),
        in_axes=(0, None),
        stepping=adaptive(max_steps=2000),
    )
    traces = np.sum(np.asarray(trajectories.last[1]) ** 2, axis=(1, 2))
    numbers = {
        "draws": DRAWS,
        "t": SINGLE_START["t"],
        "endings": status_counts(trajectories.code),
        "shrink": int(np.sum(traces < 1)),
        "grow": int(np.sum(traces > 1)),
    }
    return add_numbers(findings, {"random": numbers})


def rates(dynamics: AbstractDynamics, covariances: np.ndarray) -> np.ndarray:
    r"""Time derivatives $L\Sigma + \Sigma L^\top$ of the covariances of Gaussians."""

    def rate(Sigma: jax.Array) -> jax.Array:
        mu = Gaussian(jnp.zeros(Sigma.shape[0]), psd_sqrt(Sigma))
        field = dynamics.field(jnp.zeros(()), mu)
        assert isinstance(field, Affine)
        return field.covariance_rate(Sigma)

    return np.asarray(jax.vmap(rate)(jnp.asarray(covariances)))
