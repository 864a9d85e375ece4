"""The repr of objects in one line, and their cards in notebooks."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from meanfield import Gaussian, Grid, Points, attentions, clouds, flow
from meanfield.attention import Attention, Pointwise, Softmax
from meanfield.dynamics import stack_trees
from meanfield.errors import InvalidInputError
from meanfield.flows._arguments import check_progress
from meanfield.scores import Dot, Masked, causal

X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
IDENTITY = np.eye(2)


def normal(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.sum(x**2, axis=1) / 2) / (2 * np.pi) ** (x.shape[1] / 2)


REPRS: dict[str, tuple[Any, list[str]]] = {
    "tokens": (
        Points.uniform(X),
        ["Points", "n = 4", "d = 2", "equal", "[[0.5, 0], [0, 2]]", "float64"],
    ),
    "weights": (
        Points.weighted(X, np.array([1.0, 1.0, 0.0, 2.0])),
        ["like 2.667 equal ones, 1 left out", "mean = [0, -1]"],
    ),
    "single precision": (Points.uniform(X.astype(np.float32)), ["float32"]),
    "a line": (Points.uniform(X[:, :1]), ["d = 1", "covariance = [[0.5]]"]),
    "many dimensions": (Points.uniform(np.eye(5)), ["trace of covariance = 0.8"]),
    "a Gaussian": (
        Gaussian.from_moments([0.0, 1.0], [[2.0, 0.0], [0.0, 1.0]]),
        ["Gaussian", "d = 2", "mean = [0, 1]", "covariance = [[2, 0], [0, 1]]"],
    ),
    "a Gaussian on a line": (Gaussian.from_moments([3.0], [[2.0]]), ["d = 1", "[[2]]"]),
    "a density": (
        Grid.from_function([np.linspace(-9, 9, 91)], normal),
        ["Grid", "cells = 90", "mass = 1", "covariance = [[1]]"],
    ),
    "a plane density": (
        Grid.from_function([np.linspace(-6, 6, 41), np.linspace(-6, 6, 31)], normal),
        ["cells = 40 × 30", "covariance = [[1, 0], [0, 1]]"],
    ),
    "an attention": (
        attentions["l2"](2 * IDENTITY, IDENTITY, -IDENTITY, epsilon=0.5),
        ["l2 attention", "epsilon = 0.5", "A = [[2, 0], [0, 2]]", "V = [[-1, 0]"],
    ),
    "options": (
        attentions["sinkhorn"](IDENTITY, IDENTITY, IDENTITY, iterations=3),
        ["sinkhorn attention", "iterations = 3"],
    ),
    "a mask": (
        Attention(Masked(Dot(IDENTITY, IDENTITY), causal), Softmax(), IDENTITY),
        ["softmax attention", "mask = causal"],
    ),
    "an attention of one's own": (
        Attention(Dot(IDENTITY, IDENTITY), Pointwise(jnp.tanh), IDENTITY),
        ["Pointwise attention"],
    ),
}


def card_of(thing: Any) -> str:
    """The card that a notebook shows."""
    return thing._repr_html_()


@pytest.mark.parametrize("name", REPRS)
def test_repr_describes_the_object(name: str):
    thing, words = REPRS[name]
    line = repr(thing)
    assert "\n" not in line
    assert not [word for word in words if word not in line], line
    for part in card_of(thing).split("<svg")[1:]:
        assert ET.fromstring("<svg" + part.split("</svg>")[0] + "</svg>").get("role")
    assert card_of(thing).count("<svg") == 1
    assert "nan" not in card_of(thing)


@pytest.mark.parametrize("name", ["tokens", "a Gaussian", "a density", "an attention"])
def test_abstract_arrays_are_shown_by_their_shapes(name: str):
    """Tracers, stacks, outlines and filtered trees."""
    thing, _ = REPRS[name]
    shown_objects = []
    jax.jit(lambda t: (shown_objects.append(t), jnp.zeros(()))[1])(thing)
    outline = jax.eval_shape(lambda t: t, thing)
    filtered = eqx.filter(thing, lambda leaf: False)
    for shown_object in (
        *shown_objects,
        outline,
        filtered,
        stack_trees([thing, thing]),
    ):
        assert type(thing).__name__ in repr(shown_object)
        assert shown_object._repr_html_() is None


def test_tokens_that_are_not_finite_are_shown():
    bad_points = Points.uniform(X).replace_coordinates(jnp.full((4, 2), jnp.nan))
    assert "not finite" in repr(bad_points)
    assert "not finite" in card_of(bad_points)


def test_repr_of_a_trajectory_has_its_ending():
    start = REPRS["a Gaussian"][0]
    trajectory = flow(
        attentions["softmax"](-IDENTITY, IDENTITY, IDENTITY), start, [0.0, 0.5, 1.0]
    )
    line = repr(trajectory)
    words = ("Gaussian", "frames = 3", "t = 0 … 1", "finished at t = 1", "steps = ")
    assert not [word for word in words if word not in line], line
    # Paler ellipses of the three frames, and the last of them once more as the end.
    assert card_of(trajectory).count("<polyline") == 4
    blown_up = flow(
        attentions["softmax"](IDENTITY, IDENTITY, IDENTITY), start, [0.0, 0.5, 1.0]
    )
    assert "blow-up at t = 0.25, t* = 0.25 ± " in repr(blown_up)
    assert card_of(blown_up).count("<polyline") == 1


def test_repr_of_a_registry_lists_its_names():
    assert repr(clouds).startswith("<registry, initial cloud: ")
    assert "attention: softmax, l2, differential" in repr(attentions)
    table = card_of(attentions)
    assert table.count("<tr>") == len(attentions)
    assert "Unnormalised attention" in table


PRINT_SCRIPT = """
import sys
from meanfield import Gaussian
print(Gaussian.from_moments([0.0], [[1.0]]))
assert not {"matplotlib", "xarray", "PIL"} & set(sys.modules)
"""


def test_repr_does_not_import_plotting():
    code = [sys.executable, "-c", PRINT_SCRIPT]
    result = subprocess.run(code, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "float32" in result.stdout


@pytest.mark.slow
def test_progress_is_shown_only_on_request(capfd: pytest.CaptureFixture[str]):
    """It changes no number; without it nothing calls back to the host."""
    attention, start = (
        attentions["softmax"](-IDENTITY, IDENTITY, IDENTITY),
        REPRS["a Gaussian"][0],
    )
    silent = flow(attention, start, [0.0, 1.0])
    assert not capfd.readouterr().out
    trajectory = flow(
        attention, start, [0.0, 1.0], progress=diffrax.TextProgressMeter()
    )
    jax.effects_barrier()
    shares = [float(line.rstrip("%")) for line in capfd.readouterr().out.split()]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 100)
    assert len(shares) > 5
    np.testing.assert_array_equal(trajectory.final.factor, silent.final.factor)


def test_an_invalid_progress_meter_is_rejected():
    with pytest.raises(InvalidInputError, match=r"`diffrax.TextProgressMeter\(\)`"):
        check_progress(True)
