"""The files to begin a plugin from work as they stand, and compute what they say."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from extending import CLI, commands, done, loaded
from helpers import assert_close

from meanfield import Points, attentions, runs
from meanfield.attention import plans
from meanfield.errors import InvalidInputError
from meanfield.plotting import panels
from meanfield.theorems import measured, statements

pytestmark = pytest.mark.usefixtures("registries")


def even_weights(
    x: np.ndarray, w: np.ndarray, A: np.ndarray, share: float
) -> np.ndarray:
    """What each token gives to each, by the formula."""
    rates = np.exp(x @ A.T @ x.T) * w
    return (1 - share) * rates / rates.sum(axis=1, keepdims=True) + share * w


def test_the_attention_has_the_weights_of_its_formula(rng: np.random.Generator):
    loaded("template_attention")
    Q, K, V = rng.normal(size=(3, 3, 3))
    x, w = rng.normal(size=(7, 3)), rng.uniform(0.1, 1, size=7)
    w = w / w.sum()
    even = attentions["even"](*map(jnp.asarray, (Q, K, V)), epsilon=0.8, share=0.3)
    mu = Points.weighted(jnp.asarray(x), jnp.asarray(w))
    expected = even_weights(x, w, K.T @ Q / 0.8, 0.3)
    assert_close(even.field(0.0, mu)(mu.tokens), expected @ x @ V.T)
    assert_close(plans(even, 0.0, mu)[0], expected)


def test_the_page_draws_the_matrices_of_the_attention(page: CLI, tmp_path: Path):
    """Of a plugin's attention, by a plugin's panel, at the time that is asked for."""
    simulated, plotted, told = commands("Files to begin from")
    done(page, simulated)
    done(page, plotted)
    assert (tmp_path / "even-focus.png").stat().st_size > 0
    data = runs.with_attention(
        tmp_path / "even.zarr",
        runs.dataset(tmp_path / "even.zarr"),
        [0.5],
        [Path("docs/extending/template_attention.py")],
    )
    axes = panels["focus"](data).axes[1]
    weights = even_weights(data["x"].values[1], np.full(12, 1 / 12), -np.eye(2), 0.2)
    entropies = -np.sum(weights * np.log(weights), axis=1)
    drawn = np.asarray(axes.lines[0].get_ydata())
    np.testing.assert_allclose(drawn, np.sort(np.exp(entropies)), rtol=1e-12)
    assert "1 of 1 statements hold" in done(page, told)


def test_the_panel_refuses_weights_without_an_entropy():
    partners = loaded("template_panel").partners
    for row in ([-0.5, 1.5], [0.0, 0.0]):
        with pytest.raises(InvalidInputError, match="entropy"):
            partners(np.array([row]))
    np.testing.assert_allclose(partners(np.array([[0.0, 2.0], [1.0, 1.0]])), [1, 2])


@pytest.mark.parametrize("seed", range(3))
def test_the_statement_holds_and_its_control_fails(seed: int):
    loaded("template_statement")
    outcome = measured("mine:covariance", seed=seed)
    held, broken = (trial.checks[0] for trial in outcome.trials)
    assert held.holds, held.observed
    assert broken.violated, broken.observed
    assert statements["mine:covariance"].control is not None
