"""The files of docs/extending.md and their commands work."""

import json
import re
from pathlib import Path

import bert_reference
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from extending_page import CLI, PAGE, ROOT, commands, load_example, run_command
from helpers import assert_close

import meanfield
from meanfield import models, runs
from meanfield.attention import attentions, plans
from meanfield.energies import energies
from meanfield.measures import Gaussian, Points
from meanfield.plotting import panels
from meanfield.spec import parse
from meanfield.theorems import verify_statement

FILES = sorted((ROOT / "docs" / "extending").glob("*.py"))
LONGEST = {"mixture": 200}  # lines; of all others 120

pytestmark = pytest.mark.usefixtures("restore_registries")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_extension_is_one_short_file_that_the_page_shows(file: Path):
    lines = file.read_text(encoding="utf-8").count("\n")
    assert lines < LONGEST.get(file.stem, 120)
    assert f"](extending/{file.name})" in PAGE
    assert f"--plugin docs/extending/{file.name}" in PAGE
    assert not re.search(r"meanfield\.(\w+\.)*_", file.read_text(encoding="utf-8"))


def quiet_weights(
    x: np.ndarray, y: np.ndarray, w: np.ndarray, A: np.ndarray
) -> np.ndarray:
    """The attention matrix by the formula."""
    rates = np.exp(x @ A.T @ y.T) * w
    return rates / (1 + rates.sum(axis=1, keepdims=True))


def test_softmax1_has_the_weights_of_its_formula(rng: np.random.Generator):
    load_example("softmax1")
    Q, K, V = rng.normal(size=(3, 3, 3))
    x, w = rng.normal(size=(7, 3)), rng.uniform(0.1, 1, size=7)
    w = w / w.sum()
    attention = attentions["softmax1"](*map(jnp.asarray, (Q, K, V)), epsilon=0.8)
    mu = Points.weighted(jnp.asarray(x), jnp.asarray(w))
    expected = quiet_weights(x, x, w, K.T @ Q / 0.8)
    assert_close(attention.field(0.0, mu)(mu.tokens), expected @ x @ V.T)
    assert_close(plans(attention, 0.0, mu)[0], expected)


def test_the_page_moves_tokens_on_circles(page: CLI, tmp_path: Path):
    """Against SciPy: softmax projected to the tangents of both circles."""
    simulate_command, plot_command = commands("A space")
    run_command(page, simulate_command)
    data = meanfield.open(tmp_path / "circles.zarr")
    x = data["x"].values
    radii = np.linalg.norm(x.reshape(*x.shape[:-1], 2, 2), axis=-1)
    np.testing.assert_allclose(radii, 1, atol=4e-16)

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        z = y.reshape(30, 4)
        v = scipy.special.softmax(4 * z @ z.T, axis=1) @ z
        pairs, speeds = z.reshape(30, 2, 2), v.reshape(30, 2, 2)
        normal = (pairs * speeds).sum(-1, keepdims=True)
        return (speeds - pairs * normal).ravel()

    span = (0.0, float(data["time"][1]))
    exact = scipy.integrate.solve_ivp(
        rate, span, x[0].ravel(), rtol=1e-11, atol=1e-12, method="DOP853"
    )
    np.testing.assert_allclose(x[1].ravel(), exact.y[:, -1], atol=1e-7)
    run_command(page, plot_command)


def test_the_page_moves_tokens_by_softmax1(page: CLI, tmp_path: Path):
    show_command, simulate_command, plot_command = commands("An attention")
    assert "velocity" in run_command(page, show_command)
    report = json.loads(run_command(page, [*simulate_command, "--json"]))
    keys = {"n": 12, "d": 2, "A": -1.0}
    x0 = np.asarray(runs.member(parse(keys)).measure.tokens.x)  # pyright: ignore[reportAttributeAccessIssue]
    share, A = np.full(12, 1 / 12), -np.eye(2)

    def rate(_: float, flat: np.ndarray) -> np.ndarray:
        x = flat.reshape(12, 2)
        return (quiet_weights(x, x, share, A) @ x).ravel()

    solution = scipy.integrate.solve_ivp(
        rate, (0, 1), x0.ravel(), rtol=1e-11, atol=1e-13
    )
    x1 = solution.y[:, -1].reshape(12, 2)
    np.testing.assert_allclose(report["mean"], x1.mean(axis=0), rtol=1e-7)
    covariance = np.cov(x1.T, bias=True)
    np.testing.assert_allclose(report["covariance"], covariance, rtol=1e-7)
    run_command(page, plot_command)
    assert (tmp_path / "quiet-attention.png").stat().st_size > 0
    (panel_command,) = commands("A panel")
    run_command(page, panel_command)
    figure = panels["radius"](runs.dataset(tmp_path / "quiet.zarr"))
    radii = figure.axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(np.asarray(radii)[-1] ** 2, np.trace(covariance), 1e-7)


def test_the_statement_holds_and_its_control_fails(page: CLI):
    verify_command, explain_command = commands("A statement")
    assert "1 of 1 statements hold" in run_command(page, verify_command)
    assert "Without scores" in run_command(page, [*explain_command, "--json"])
    outcome = verify_statement("mine:uniform-scores")
    claim, control = (trial.checks[0] for trial in outcome.trials)
    assert claim.observed < 1e-8
    assert control.observed > 0.01


def test_the_quartic_energy_matches_quadrature(rng: np.random.Generator):
    load_example("quartic")
    identity = jnp.eye(2)
    energy = energies["quartic"](identity, identity, identity)
    mean, Y = rng.normal(size=2), rng.normal(size=(2, 2))
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)  # exact to degree 7
    z = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    mass = np.outer(weights, weights).ravel() / weights.sum() ** 2
    expected = mass @ np.sum((mean + z @ Y.T) ** 2, axis=1) ** 2 / 4
    gaussian = Gaussian(jnp.asarray(mean), jnp.asarray(Y))
    assert_close(energy(gaussian), expected)
    x = rng.normal(size=(5, 2))
    of_points = np.mean(np.sum(x**2, axis=1) ** 2) / 4
    assert_close(energy(Points.uniform(jnp.asarray(x))), of_points)


@pytest.mark.slow
def test_the_page_observes_the_quartic_energy(page: CLI, tmp_path: Path):
    """The variance of a centred Gaussian is $1/(1/2 + 2t)$, and $E = 3\\Sigma^2/4$."""
    simulate_command, plot_command = commands("An energy")
    run_command(page, simulate_command)
    data = runs.dataset(tmp_path / "quartic.zarr")
    variance = 1 / (0.5 + 2 * data["time"].values)
    np.testing.assert_allclose(data["energy_quartic"], 0.75 * variance**2, rtol=1e-7)
    np.testing.assert_allclose(data["dissipation_quartic"], -3 * variance**3, rtol=1e-7)
    run_command(page, plot_command)
    heads = ("--heads", "2", "--Q", "[[1,0],[0,1]]", "--K", "[[1,0],[0,1]]")
    options = (
        "--d",
        "2",
        "--t",
        "0.1",
        "--frames",
        "2",
        *heads,
        "--observe",
        "quartic",
    )
    run_command(page, ["simulate", *options, "--n", "4"])


def test_the_page_stops_where_a_flow_is_calm(page: CLI):
    r"""Euler steps of $x_i' = -\bar x$ shrink the mean and the speed by 63/64."""
    (simulate_command,) = commands("A stop")
    report = json.loads(run_command(page, simulate_command))
    x = np.asarray(runs.member(parse({"n": 5, "mean": 1.0})).measure.tokens.x)  # pyright: ignore[reportAttributeAccessIssue]
    ratio = 0.01 * np.sqrt(np.mean(x**2)) / abs(x.mean())
    steps = np.ceil(np.log(ratio) / np.log(63 / 64))
    assert report["ending"] == "steady"
    assert report["t"] == steps / 64
    failure = page("simulate", "--stop", "calm", *simulate_command[-3:])
    assert failure.code == 2
    assert "NAME:NUMBER" in failure.err
    unknown = page("simulate", "--stop", "clam:1", *simulate_command[-3:])
    assert "did you mean `calm`?" in unknown.err


@pytest.mark.slow
def test_the_page_starts_from_a_logistic_law(page: CLI):
    """Uniform scores keep a centred law, of variance π²/3 and entropy 2."""
    (simulate_command,) = commands("An initial law")
    report = json.loads(run_command(page, simulate_command))
    np.testing.assert_allclose(report["covariance"], [[np.pi**2 / 3]], rtol=1e-6)
    np.testing.assert_allclose(report["energy_entropy"], -2.0, rtol=1e-4)
    tokens = runs.member(parse({"n": 4000, "init": "logistic"})).measure.tokens.x  # pyright: ignore[reportAttributeAccessIssue]
    assert scipy.stats.kstest(np.asarray(tokens)[:, 0], "logistic").pvalue > 0.01


@pytest.mark.slow
def test_processes_know_the_statements_of_a_plugin(page: CLI, tmp_path: Path):
    """There are two of them, so that processes are started."""
    (tmp_path / "other.py").write_text(
        (ROOT / "docs" / "extending" / "uniform_scores.py")
        .read_text(encoding="utf-8")
        .replace("mine:uniform-scores", "mine:again")
    )
    plugins = ["--plugin", "docs/extending/uniform_scores.py", "--plugin", "other.py"]
    assert "2 of 2 statements hold" in run_command(
        page, ["verify", "mine", "--workers", "2", *plugins]
    )


def write_distilbert(folder: Path) -> None:
    """The checkpoint of `bert_reference` under the names of DistilBERT."""
    words = {
        "encoder": "transformer",
        "attention.self.query": "attention.q_lin",
        "attention.self.key": "attention.k_lin",
        "attention.self.value": "attention.v_lin",
        "attention.output.dense": "attention.out_lin",
        "attention.output.LayerNorm": "sa_layer_norm",
        "intermediate.dense": "ffn.lin1",
        "output.dense": "ffn.lin2",
        "output.LayerNorm": "output_layer_norm",
    }
    arrays = {}
    for old_name, array in bert_reference.synthetic_arrays().items():
        name = old_name
        for old, new in words.items():
            name = name if name.startswith("embed") else name.replace(old, new)
        arrays[name] = array
    del arrays["embeddings.token_type_embeddings.weight"]
    old_keys = ("hidden_size", "num_attention_heads", "num_hidden_layers")
    new_keys = dict(zip(("dim", "n_heads", "n_layers"), old_keys, strict=True))
    config = {new: bert_reference.CONFIG[old] for new, old in new_keys.items()}
    bert_reference.write(
        folder, arrays=arrays, config=config | {"model_type": "distilbert"}
    )


def test_distilbert_has_the_states_of_bert_without_segments(tmp_path: Path):
    load_example("distilbert")
    arrays = bert_reference.synthetic_arrays()
    arrays["embeddings.token_type_embeddings.weight"][:] = 0
    config = {"layer_norm_eps": 1e-12}
    bert_reference.write(tmp_path / "bert", arrays=arrays, config=config)
    write_distilbert(tmp_path / "distil")
    ids = np.array([2, 4, 5, 6, 3])
    network = models.read(models.load(tmp_path / "distil"))
    x = network.embedding(ids)
    for layer, expected in enumerate(
        bert_reference.Reference(tmp_path / "bert").hidden_states(ids)
    ):
        np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-9)
        x = x + network.parts(layer, x).displacement if layer < 2 else x


def test_the_page_moves_a_text_by_distilbert(page: CLI, tmp_path: Path):
    write_distilbert(tmp_path / "distil")
    inspect_command, simulate_command = commands("An architecture")
    refused = page(*inspect_command[:3])
    assert refused.code == 3
    assert "`distilbert`, which is not registered" in refused.err
    assert "add `--plugin FILE.py`" in refused.err
    assert "dimension" in run_command(page, inspect_command)
    run_command(page, simulate_command)
    assert runs.dataset(tmp_path / "layers.zarr").sizes["token"] == 9
