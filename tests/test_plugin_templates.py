"""The plugin templates work unchanged, and compute what they state."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from extending_page import CLI, ROOT, commands, load_example, run_command
from helpers import assert_close

from meanfield import Points, attentions, flow, runs
from meanfield.attention import Attention, plans
from meanfield.errors import InvalidInputError
from meanfield.measures import Chebyshev
from meanfield.plotting import panels
from meanfield.theorems import statements, verify_statement

pytestmark = pytest.mark.usefixtures("restore_registries")


def even_weights(
    x: np.ndarray, w: np.ndarray, A: np.ndarray, share: float
) -> np.ndarray:
    """The attention matrix by the formula."""
    rates = np.exp(x @ A.T @ x.T) * w
    return (1 - share) * rates / rates.sum(axis=1, keepdims=True) + share * w


def test_the_attention_has_the_weights_of_its_formula(rng: np.random.Generator):
    load_example("template_attention")
    Q, K, V = rng.normal(size=(3, 3, 3))
    x, w = rng.normal(size=(7, 3)), rng.uniform(0.1, 1, size=7)
    w = w / w.sum()
    even = attentions["even"](*map(jnp.asarray, (Q, K, V)), epsilon=0.8, share=0.3)
    mu = Points.weighted(jnp.asarray(x), jnp.asarray(w))
    expected = even_weights(x, w, K.T @ Q / 0.8, 0.3)
    assert_close(even.field(0.0, mu)(mu.tokens), expected @ x @ V.T)
    assert_close(plans(even, 0.0, mu)[0], expected)


WRONG = {  # replacements for the last line of a method, and the error
    "__call__": {
        "near[:, :1]": r"of `(even|Even)`.*`EvenMean`.*\(7, 2\) .*shape \(7, 1\)",
        "near[:1]": r"for tokens of shape \(7, 2\) it returned shape \(1, 2\)",
        "near[0]": r"for tokens of shape \(7, 2\) it returned shape \(2,\)",
    },
    "weights": {
        "2 * near": "`weights` of `EvenMean` does not match the values of its field",
        "near.T": "`weights` of `EvenMean` does not match the values of its field",
        "near[:1]": r"a row and a column for each of the 7 .*got shape \(1, 7\)",
    },
}
MISTAKES = [(place, line) for place, lines in WRONG.items() for line in lines]


def modified_template(**lines: str) -> Attention:
    """The template's attention with other last lines in the methods of its field."""
    text = (ROOT / "docs" / "extending" / "template_attention.py").read_text("utf-8")
    for place, line in lines.items():
        body = rf"(def {place}\(self.*?near = .*?return )[^\n]+"
        text, count = re.subn(body, lambda m, to=line: m[1] + to, text, flags=re.S)
        assert count == 1
    module = {"__name__": "mine"}
    exec(compile(text, "mine.py", "exec"), module)
    return attentions["even"](-jnp.eye(2), jnp.eye(2), jnp.eye(2))


def cloud(rng: np.random.Generator) -> Points:
    return Points.uniform(jnp.asarray(rng.normal(size=(7, 2))))


@pytest.mark.parametrize(("place", "line"), MISTAKES)
def test_errors_in_a_plugin_name_it(rng: np.random.Generator, place: str, line: str):
    attention, mu = modified_template(**{place: line}), cloud(rng)
    calls = {"__call__": lambda: flow(attention, mu, [0.0, 0.1])}
    with pytest.raises(InvalidInputError, match=WRONG[place][line]) as error_info:
        calls.get(place, lambda: plans(attention, 0.0, mu))()
    assert "\n" not in str(error_info.value)


def test_rows_not_summing_to_one_are_rejected_if_promised(rng: np.random.Generator):
    doubled_weights = modified_template(__call__="2 * near", weights="2 * near")
    with pytest.raises(InvalidInputError, match=r"rows_sum_to_one.* sums to 2\."):
        plans(doubled_weights, 0.0, cloud(rng))


def test_a_correct_matrix_is_accepted_with_excluded_tokens(rng: np.random.Generator):
    """Excluded tokens have no place, and inexact sums are not compared."""
    x, w = rng.normal(size=(7, 2)), np.array([1.0, 0, 1, 1, 1, 1, 1])
    x[1] = 1e9
    mu = Points.weighted(jnp.asarray(x), jnp.asarray(w), reduction=Chebyshev(0.5))
    assert plans(modified_template(), 0.0, mu).shape == (1, 7, 7)


@pytest.mark.slow
def test_the_page_draws_the_matrices_of_the_attention(page: CLI, tmp_path: Path):
    """By a plugin's panel, at the requested time."""
    simulate_command, plot_command, show_command, _ = commands("Files to begin from")
    run_command(page, simulate_command)
    run_command(page, plot_command)
    assert (tmp_path / "even-focus.png").stat().st_size > 0
    data = runs.add_attention(
        tmp_path / "even.zarr",
        runs.dataset(tmp_path / "even.zarr"),
        [0.5],
        [Path("docs/extending/template_attention.py")],
    )
    axes = panels["focus"](data).axes[1]
    weights = even_weights(data["x"].values[1], np.full(12, 1 / 12), -np.eye(2), 0.2)
    entropies = -np.sum(weights * np.log(weights), axis=1)
    curve = np.asarray(axes.lines[0].get_ydata())
    np.testing.assert_allclose(curve, np.sort(np.exp(entropies)), rtol=1e-12)
    assert "1 of 1 statements hold" in run_command(page, show_command)


def test_the_page_trains_networks_on_the_task(page: CLI):
    *_, train_command = commands("Files to begin from")
    assert "2 of 2" in run_command(page, train_command)


def test_the_panel_rejects_weights_without_an_entropy():
    partners = load_example("template_panel").partners
    for row in ([-0.5, 1.5], [0.0, 0.0]):
        with pytest.raises(InvalidInputError, match="entropy"):
            partners(np.array([row]))
    np.testing.assert_allclose(partners(np.array([[0.0, 2.0], [1.0, 1.0]])), [1, 2])


@pytest.mark.parametrize("seed", range(3))
def test_the_statement_holds_and_its_control_fails(seed: int):
    load_example("template_statement")
    outcome = verify_statement("mine:covariance", seed=seed)
    claim, control = (trial.checks[0] for trial in outcome.trials)
    assert claim.holds, claim.observed
    assert control.is_violated, control.observed
    assert statements["mine:covariance"].control is not None
