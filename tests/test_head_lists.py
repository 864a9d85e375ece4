"""Matrices listed by head, in one line: velocities and errors."""

import json
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import CommandResult
from helpers import assert_close
from reference import Parameters, velocity

from meanfield import runs
from meanfield.cli.options._options import gather
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.fields import Affine
from meanfield.measures import Points
from meanfield.plotting.reading.description import description
from meanfield.runs.records._inputs import Inputs
from meanfield.runs.setup._heads import parameters
from meanfield.runs.setup._parameters import Draw
from meanfield.spec import parse, parse_axes, read_toml, replace_values

Command = Callable[..., CommandResult]
EYE = np.eye(2)
A = np.array([[-0.6, 0.9], [-0.2, 0.4]])
V = np.array([[0.5, 0.3], [-0.4, 0.8]])


def start_velocities(values: dict) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Initial tokens of a spec, their weights, and their velocities."""
    setup = runs.member(
        parse({"n": 5, "weights": [0.1, 0.3, 0.2, 0.25, 0.15], **values})
    )
    assert isinstance(setup.measure, Points)
    mu = setup.measure
    v = jax.jit(lambda law: law.field(0.0, mu)(mu.tokens))(setup.dynamics)
    return np.asarray(mu.tokens.x), np.asarray(mu.weights), np.asarray(v)


def sum_of_heads(x: np.ndarray, w: np.ndarray, *heads: Parameters) -> np.ndarray:
    return np.sum([velocity("softmax", p, x, x, w) for p in heads], axis=0)


def test_a_list_has_one_matrix_for_each_head():
    """Numbers, matrices and both; none of them split, in any dimension."""
    x, w, v = start_velocities({"d": 3, "heads": 2, "A": [1, -0.5], "V": [2, -1]})
    I = np.eye(3)
    assert_close(
        v, sum_of_heads(x, w, Parameters(I, I, 2 * I), Parameters(-0.5 * I, I, -I))
    )
    keys = {"d": 2, "heads": 2, "A": [A.tolist(), 1], "V": [1, V.tolist()]}
    x, w, v = start_velocities(keys)
    assert_close(
        v, sum_of_heads(x, w, Parameters(A, EYE, EYE), Parameters(EYE, EYE, V))
    )


def test_queries_and_keys_are_listed_too(rng: np.random.Generator):
    Q, K = rng.normal(size=(2, 2, 3, 2))
    keys = {"heads": 2, "Q": Q.tolist(), "K": K.tolist(), "V": [1, -2], "epsilon": 0.7}
    for scale, epsilon in (("none", 0.7), ("sqrt-k", 0.7 * np.sqrt(3))):
        x, w, v = start_velocities({**keys, "scale": scale})
        head = Parameters(Q[0], K[0], EYE, epsilon)
        assert_close(
            v, sum_of_heads(x, w, head, Parameters(Q[1], K[1], -2 * EYE, epsilon))
        )
    # Beside a list, a single matrix is split as usual: here keys of three rows each.
    x, w, v = start_velocities({**keys, "K": K.reshape(6, 2).tolist()})
    head, two = (Parameters(Q[h], K[h], v, 0.7) for h, v in ((0, EYE), (1, -2 * EYE)))
    assert_close(v, sum_of_heads(x, w, head, two))


def test_laws_of_heads_are_drawn_apart():
    setup = runs.member(parse({"heads": 2, "d": 2, "V": ["normal", "normal"], "n": 3}))
    first, second = setup.dynamics.stack.value  # pyright: ignore[reportAttributeAccessIssue]
    assert np.max(np.abs(first - second)) > 0.01


def test_files_of_heads_are_read_recorded_and_embedded(tmp_path: Path):
    np.save(tmp_path / "one.npy", V)
    (tmp_path / "run.toml").write_text(
        'heads = 2\nn = 5\nt = 0.1\nframes = 3\nA = [1, 1]\nV = ["@one.npy", -1]\n'
    )
    spec = parse(read_toml(tmp_path / "run.toml"))
    assert list(Inputs.from_spec(spec).start) == [str(tmp_path / "one.npy")]
    runs.execute(spec, out=tmp_path / "run")
    (tmp_path / "one.npy").unlink()
    data = runs.dataset(tmp_path / "run")
    assert data.attrs["spec"]["V"] == [V.tolist(), -1]
    assert "V = [[[0.5, 0.3], [−0.4, 0.8]], −1]" in description(data)
    assert runs.resume(tmp_path / "run").outcome.name == "finished"


def test_layers_list_heads_too():
    r"""For a centred Gaussian the field is $\sum_h V_h\Sigma A_h x$."""
    layers = [{"t": 0.0}, {"t": 1.0, "V": [3, V.tolist()]}]
    cov = [[0.5, 0.2], [0.2, 0.4]]
    spec = {"measure": "gaussian", "heads": 2, "A": [1, A.tolist()], "V": [1, 2]}
    setup = runs.member(parse({**spec, "cov": cov, "layers": layers}))
    for t, (first, second) in ((0.5, (EYE, 2 * EYE)), (1.5, (3 * EYE, V))):
        field = setup.dynamics.field(t, setup.measure)
        assert isinstance(field, Affine)
        assert_close(field.linear, first @ cov + second @ cov @ A)


def test_terms_list_heads_too():
    term = {"heads": 2, "A": [1, 1], "V": [1, 2]}
    x, w, v = start_velocities({"d": 2, "V": 0, "terms": [term]})
    assert_close(v, sum_of_heads(x, w, Parameters(EYE, EYE, 3 * EYE)))


def test_a_sweep_varies_lists_of_heads():
    (axis,) = parse_axes("V=[1,-1]|[1,1]")
    spec = parse({"heads": 2, "A": [1, 1], "d": 2})
    assert replace_values(spec, [(axis, axis.values[0])]).V == [1, -1]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"V": [1, -1]}, "one for each head (`heads` = 1)"),
        ({"V": [1, -1, 0], "heads": 2}, "`V` is a list of 3"),
        (
            {"A": [1, 1], "V": [1, [[1, 0]]], "heads": 2, "d": 2},
            "`V[1]` must be a 2 × 2",
        ),
        (
            {"V": [1, -1], "heads": 2, "d": 3},
            "must divide 3, the number of rows of `A`",
        ),
        (
            {"V": [1, [2, 3]], "heads": 2},
            "`V` must be finite: a number, a list of rows",
        ),
        ({"V": [], "heads": 2}, "`V` is empty"),
        ({"V": [[[1, 2], [3]], 1], "heads": 2}, "rows of different lengths"),
        ({"V": ["uniform", 1], "A": [1, 1], "heads": 2}, "`V[0]` must be a number"),
        ({"Q": [[[1, 0]], [[1, 0]]], "K": [1, 1], "heads": 2}, "same number of rows"),
    ],
)
def test_lists_that_do_not_fit_are_rejected_in_one_line(keys: dict, words: str):
    with pytest.raises(InvalidInputError) as error_info:
        runs.member(parse({"n": 3, **keys}))
    assert words in str(error_info.value)
    assert "\n" not in str(error_info.value)


def test_a_vector_in_a_file_is_rejected_as_a_matrix(tmp_path: Path):
    np.save(tmp_path / "v.npy", np.ones(2))
    spec = parse({"V": [f"@{tmp_path / 'v.npy'}"] * 2, "heads": 2, "d": 2, "n": 3})
    with pytest.raises(InputFileError, match="must hold the matrix of one head"):
        runs.execute(spec)


def test_the_command_line_lists_heads_with_commas(cli: Command):
    """Σ' = Σ_h (V_h Σ A_h Σ)' with numbers: σ' = 2 (a₁v₁ + a₂v₂) σ², V not split."""
    options = "--measure=gaussian --heads=2 --A=1,-0.5 --V=0.5,2 --t=1 --d=3 --json"
    result = cli("simulate", *options.split())
    assert result.code == 0, result.err
    # a₁v₁ + a₂v₂ = −1/2, so σ = 1 / (1 + t).
    np.testing.assert_allclose(
        json.loads(result.out)["covariance"], np.eye(3) / 2, atol=1e-8
    )
    failure = cli("simulate", "--heads=2", "--V=1,2,3")
    assert failure.code == 2
    assert "`V` is a list of 3 matrices, but must have one for each" in failure.err
    assert "one entry for each head" in " ".join(cli("simulate", "--help").out.split())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,-1", [1, -1]),
        ("[1,0],[0,1]", [[1, 0], [0, 1]]),
        ("normal,normal:2", ["normal", "normal:2"]),
        ("@/v,1.npy,-1", ["@/v,1.npy", -1]),  # a comma in a name does not split
        ("[[1,0],[0,1]], @/v.npy", [[[1, 0], [0, 1]], "@/v.npy"]),
        ("@/a,b.npy", "@/a,b.npy"),
    ],
)
def test_lists_of_heads_are_split_at_values(text: str, value: object):
    assert value == gather(None, None, {}, {"heads": "2", "V": text}).V


def test_rows_of_many_heads_are_split_without_compiling(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Compiling a program with 512 results took a minute."""
    draw = Draw(0)
    with jax.log_compiles():
        blocks = parameters(parse({"d": 74, "heads": 37}), 74, draw)
    assert not [r for r in caplog.records if "ompil" in r.getMessage()]
    selector = np.kron(np.eye(37), np.ones((1, 2)))  # the rows of each head
    assert_close(np.stack([Q for Q, _, _ in blocks]), np.eye(74).reshape(37, 2, 74))
    values = selector[:, :, None] * np.eye(74)
    assert_close(np.stack([V for _, _, V in blocks]), values)
