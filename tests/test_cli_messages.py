"""Messages of commands: plain lists, causes of failures, sizes in advance."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import CommandResult
from scipy.integrate import solve_ivp

import meanfield
from meanfield import runs
from meanfield.cli.options._names import KINDS
from meanfield.cli.terminal._mathematics import to_unicode
from meanfield.storage import table_bytes

Command = Callable[..., CommandResult]

LETTERS = {
    r"weights $e^{Qx\cdot Ky/\epsilon}$": "weights e^(Qx·Ky/ε)",
    r"a cone $z \ge \sqrt{x^2 + y^2}$": "a cone z ≥ √(x² + y²)",
    r"$\Sigma / \operatorname{tr}\Sigma$": "Σ / tr Σ",
    r"$\int\rho\log\rho$, $\max(s, 0)$": "∫ρlog ρ, max(s, 0)",
    r"$\tfrac{1}{2\epsilon}V(A + A^\top)$": "(1/(2ε))V(A + Aᵀ)",
    r"$\bar x_{ij} \to \{0\}$ -- `all`": "x\u0304_(ij) → {0} – all",
    r"$(1 + 2t)^{-1}$ and $\frac12$.": "(1 + 2t)⁻¹ and 1/2.",
}


@pytest.mark.parametrize("text", list(LETTERS))
def test_formulas_are_shown_in_letters(text: str) -> None:
    assert to_unicode(text) == LETTERS[text]


@pytest.mark.parametrize("kind", list(KINDS))
def test_lists_contain_no_tex(cli: Command, kind: str) -> None:
    result = cli("list", kind)
    assert result.code == 0
    assert not {"$", "\\"} & set(result.out)


def test_list_names_every_mask(cli: Command) -> None:
    names = {row["name"] for row in json.loads(cli("list", "masks", "--json").out)}
    wide = ("window", "block-local", "block-causal", "strided", "fixed")
    rates = {"alibi:RATE", "alibi-unnormalised:RATE"}
    assert names == {"causal", "strict", *(f"{name}:WIDTH" for name in wide), *rates}
    assert "0 ≤ s - t ≤ w" in cli("show", "window:WIDTH").out


A, COVARIANCE = [[0.3, 1.4], [-0.6, 0.5]], [[1.0, 0.5], [0.5, 0.9]]


@pytest.mark.slow_cases("1.0")
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_exp_reports_a_velocity_without_average(cli: Command, scale: float) -> None:
    r"""By $|\Sigma^{1/2}A\Sigma^{1/2}|^2$, an eigenvalue of $\Sigma A\Sigma A^\top$."""
    S, B = np.array(COVARIANCE), np.array(A)
    norm = scale * np.sqrt(np.max(np.linalg.eigvals(S @ B @ S @ B.T).real))
    cov = json.dumps((scale * S).tolist())
    gaussian = ("--measure=gaussian", "--projected", "--attention=exp", f"--cov={cov}")
    scores = (f"--A={(0.8 * B).tolist()}", "--epsilon=0.8")
    result = cli("simulate", *gaussian, *scores, "--max-steps=1", "--json")
    report = json.loads(result.out)
    assert result.code == 5
    assert report["ending"] in ("unconverged", "max-steps")
    clause = f"unless |Σ^½ A Σ^½| < 1, and here that is {norm:.3g}"
    for text in (report["reason"], result.err):
        assert (clause in text) == (norm > 1)


@pytest.mark.slow
def test_exp_does_not_report_its_own_law_with_a_context(cli: Command) -> None:
    gaussian = ("--measure=gaussian", "--projected", "--attention=exp", "--cov=4")
    context = ("--context=gaussian", "--context-cov=0.01", "--max-steps=1", "--json")
    result = cli("simulate", *gaussian, *context)
    assert result.code == 5
    assert "no finite average" not in result.err


@pytest.mark.slow
def test_exp_on_a_grid_reports_a_velocity_without_average(cli: Command) -> None:
    grid = ("--measure=grid", "--attention=exp", "--cells=40", "--max-steps=20")
    result = cli("simulate", *grid, "--frames=2", "--json")
    assert json.loads(result.out)["ending"] == "max-steps"
    assert "here that is 1: lower `cov`, or raise `epsilon`" in result.err


def test_draws_of_a_density_that_are_all_the_same_are_rejected(cli: Command) -> None:
    result = cli("simulate", "--measure=grid", "--cells=40", "--draws=3")
    assert result.code == 2
    assert "All 3 `draws` are equal" in result.err


@pytest.mark.slow_cases("points")
@pytest.mark.parametrize("measure", ["points", "gaussian"])
def test_export_announces_the_size_of_a_large_table(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measure: str
) -> None:
    spec = ("--measure", measure, "--d=1", "--A=-1", "--t=0.1", "--frames=21")
    assert cli("simulate", *spec, "--n=1500", "--out=run").code == 0
    expected = table_bytes(runs.open(tmp_path / "run"))
    assert cli("export", "run", "run.csv").err == "wrote run.csv\n"
    assert expected == pytest.approx((tmp_path / "run.csv").stat().st_size, rel=0.1)
    monkeypatch.setattr("meanfield.cli.commands.export.LARGE", expected - 1)
    first, last = cli("export", "run", "run.csv", "--force").err.splitlines()
    assert first.startswith(f"`run.csv` will hold about {runs.format_bytes(expected)}")
    assert last == "wrote run.csv"


def test_the_report_has_the_mean_and_the_error_of_coarse_steps(
    cli: Command, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text("1,2\n3,6\n")
    run = ("--init", "@x.csv", "--V", "0", "--rtol", "1e-3", "--t", "0.1")
    result = cli("simulate", *run, "--frames", "2", "--out", "run")
    assert "mean        2, 4\n" in result.out
    assert "each to 0.001; the flow may amplify this error" in result.out
    assert "compare with --rtol 0.0001" in result.out
    output = cli("show", "run").out
    assert "plugins" not in output
    (line,) = [line for line in output.splitlines() if line.startswith("files")]
    assert "x.csv (" in line


def test_the_energy_suggested_for_a_run_exists(cli: Command) -> None:
    result = cli("simulate", "--observe", "enrgy", "--n", "3", "--t", "0.1")
    assert result.code == 2
    assert "did you mean `energy`?" in result.err


@pytest.mark.slow
def test_tokens_of_the_preset_collapse_to_the_origin(cli: Command) -> None:
    actual = json.loads(cli("simulate", "--preset", "collapse", "--json").out)
    assert np.abs(actual["mean"]).max() < 1e-6
    assert np.trace(actual["covariance"]) < 0.1
    spectrum = np.linalg.eigvalsh(actual["covariance"])[::-1]
    np.testing.assert_allclose(actual["eigenvalues"], spectrum, rtol=1e-12)
    assert 1.9 < actual["effective_rank"] <= 2


def test_a_family_with_blow_ups_is_not_reported_as_finished(
    cli: Command, tmp_path: Path
) -> None:
    """Against SciPy's solutions of Σ' = VΣAΣ + (VΣAΣ)ᵀ from the same starts."""
    A, V = "[[0.8,-0.5],[0.1,-0.6]]", "[[-0.6,0.2],[0.1,-0.9]]"
    keys = ("--starts", "grid:4", "--A", A, "--V", V, "--t", "3", "--frames", "2")
    run = tmp_path / "cone.zarr"
    result = cli("simulate", "--measure", "gaussian", *keys, "--out", str(run))
    starts = meanfield.open(run)["covariance"].isel(time=0).values
    blows = [_blows_up(start, json.loads(A), json.loads(V), 3.0) for start in starts]
    counts = f"blow-up × {sum(blows)}, finished × {len(blows) - sum(blows)}: "
    assert 0 < sum(blows) < len(blows)
    assert f"\nending      {counts}" in result.out
    assert "\nmean        first member (blow-up at t = " in result.out
    assert f"\nreason        {counts}" in cli("show", str(run)).out
    record = json.loads(cli("show", str(run), "--json").out)
    assert record["ending"] == "blow-up"
    assert record["endings"] == {"blow-up": sum(blows), "finished": blows.count(False)}
    assert record["t_star"] == record["t_star_range"][0] < record["t_star_range"][1] < 3


def _blows_up(start: np.ndarray, A: list, V: list, t: float) -> bool:
    """Whether a covariance passes 1e6 by time `t`: softmax, castin2025, eq. (2.4)."""
    score, value = np.array(A), np.array(V)

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        S = y.reshape(2, 2)
        half = value @ S @ score @ S
        return (half + half.T).ravel()

    def size(_: float, y: np.ndarray) -> float:
        return np.abs(y).max() - 1e6

    size.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    end = solve_ivp(rate, (0, t), start.ravel(), rtol=1e-9, events=size)
    return end.status == 1


def test_an_extra_argument_is_named(cli: Command) -> None:
    result = cli("resume", "one.zarr", "two.zarr")
    assert result.code == 2
    assert "Unexpected argument `two.zarr`." in result.err


def test_comments_are_not_run_as_examples(cli: Command) -> None:
    assert ">>>" not in cli("show", "l2").out


def test_a_blow_up_with_few_frames_suggests_more(cli: Command) -> None:
    keys = ("--measure", "gaussian", "--A", "1", "--cov", "2", "--out")
    result = cli("simulate", *keys, "few", "--t", "10")
    assert "3 of 101 lie before t*" in result.out
    assert "run it again with --t 0.255" in result.out
    second = cli("simulate", *keys, "more", "--t", "0.255", "--json")
    assert json.loads(second.out)["ending"] == "blow-up"
    assert runs.dataset(Path("more")).sizes["time"] > 90


def test_eigenvalues_at_rounding_level_are_counted(cli: Command) -> None:
    keys = ("--init", "@x.csv", "--V", "0", "--t", "0.1", "--frames", "2")
    Path("x.csv").write_text("1,2,0.1\n3,6,0.3\n")
    assert "(2 as small as rounding errors omitted)\n" in cli("simulate", *keys).out
