"""The machinery of `verify`: what counts as holding, as failing, as found again."""

import json
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Finished

from meanfield.errors import UnknownNameError
from meanfield.theorems import (
    Case,
    Check,
    Counterexample,
    chosen,
    measured,
    report,
    statements,
    witnesses,
)
from meanfield.theorems import statement as registered_statement
from meanfield.theorems._protocols import ascend, gap, order, wasserstein, z_score

PLUGIN = '''
from meanfield.theorems import Check, Counterexample, statement

def check(observed):
    return (Check("a number", observed, "<=", 1.0, 0.01, "chosen"),)

@statement("mine:one", source="here", claim="$a \\\\le 1$")
def one(case):
    """Looks at a number."""
    return check({observed})

@one.refuted_by("a larger number")
def _(case):
    return check({control})

@one.misprinted("X", printed="$a<2$", corrected="$a<1$", counterexample="3")
def _(case):
    return Counterexample(printed=check({printed}), corrected=check({observed}))
'''


def check(observed: float, **changes: object) -> Check:
    return Check("x", observed, "<=", 1.0, 0.01, "why")._replace(**changes)


@pytest.mark.parametrize(
    ("made", "holds", "violated"),
    [
        (check(0.5), True, False),
        (check(1.005), True, False),
        (check(1.05), False, False),  # neither: the margin is too small for a control
        (check(1.11), False, True),
        (check(np.nan), False, False),
        (check(np.inf), False, False),
        (check(-np.inf), False, False),
        (check(0.8, relation=">="), False, True),
        (check(1.2, relation=">="), True, False),
        (check(1.2, relation="="), False, True),
        (check(0.8, relation="="), False, True),
        (check(1.0, relation="=", tolerance=0.0), True, False),
    ],
)
def test_a_check_holds_or_is_violated_by_a_margin(
    made: Check, holds: bool, violated: bool
) -> None:
    assert (made.holds, made.violated) == (holds, violated)


def test_gap_is_relative_to_the_reference_and_refuses_other_shapes() -> None:
    made = gap("x", [1.0, 2.2], [1.0, 2.0], tolerance=0.05, why="")
    assert made.observed == pytest.approx(0.1)
    with pytest.raises(ValueError, match="Shapes"):
        gap("x", [1.0], [[1.0]], tolerance=1, why="")


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_an_order_is_found_where_a_next_order_disturbs_it(power: float) -> None:
    eps = np.array([0.04, 0.02, 0.01, 0.005])
    errors = 3 * eps**power * (1 + eps)
    assert order("x", eps, errors, power).holds
    assert order("x", eps, errors, power + 1).violated
    assert order("x", eps, errors, power - 1).violated


def test_a_z_score_of_a_fair_sample_is_small_and_of_a_biased_one_large(
    rng: np.random.Generator,
) -> None:
    sample = rng.normal(size=10_000)
    error = float(sample.std() / 100)
    assert z_score("x", float(sample.mean()), 0.0, error).holds
    assert z_score("x", float(sample.mean()), 0.5, error).violated


def test_exact_transport_of_two_shifted_clouds_is_the_shift(
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=(6, 2))
    for p in (1, 2):
        assert wasserstein(x, x[::-1] + 3, p) == pytest.approx(3 * np.sqrt(2))


def bump(free: dict) -> jnp.ndarray:
    r"""A log-ratio whose largest value, log 2, is at 0.3."""
    return jnp.log(2.0) - jnp.sum((free["x"] - 0.3) ** 2)


def test_an_ascent_finds_the_top_and_is_replayed_at_its_witness() -> None:
    import jax

    start = lambda key: {"x": jax.random.normal(key, (2,))}
    found = ascend(Case("a:b"), "top", bump, start, bound=1.0)
    assert found.observed == pytest.approx(2, abs=1e-4)
    assert found.violated
    witness = found.evidence.witness  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    again = ascend(Case("a:b", witnesses={"top": witness}), "top", bump, start)
    assert again.observed == pytest.approx(found.observed, rel=1e-12)


def test_draws_follow_statement_name_and_seed_alone() -> None:
    draw = lambda case, name: case.rng(name).normal()
    same = draw(Case("a:b", "quick", 3), "Q"), draw(Case("a:b", "full", 3), "Q")
    assert same[0] == same[1]
    others = [
        draw(Case("a:b", seed=4), "Q"),
        draw(Case("a:c", seed=3), "Q"),
        draw(Case("a:b", seed=3), "K"),
    ]
    assert len({same[0], *others}) == 4


def test_what_raises_has_failed_and_says_why() -> None:
    @registered_statement("test:raises", source="", claim="")
    def raises(case: Case) -> tuple[Check, ...]:
        raise ZeroDivisionError("no such number")

    @raises.misprinted("X", printed="", corrected="", counterexample="")
    def _(case: Case) -> Counterexample:
        return Counterexample((check(5.0),), ())

    try:
        outcome = measured("test:raises")
        found = report([outcome], "quick", 0)["statements"][0]
    finally:
        statements._items.pop("test:raises")  # pyright: ignore[reportPrivateUsage]
    assert [t.passed for t in outcome.trials] == [False, False, True]
    assert outcome.trials[0].error == "ZeroDivisionError: no such number"
    assert outcome.trials[1].error == "there is no control"
    assert found["verdict"] == "fails"


def test_patterns_choose_by_id_part_alias_paper_and_wildcard() -> None:
    every = chosen()
    assert [s.id for s in chosen(["castin2025:lemma-4.1"])][:1] == [
        "castin2025:lemma-4.1"
    ]
    assert {s.paper for s in chosen(["castin2025"])} == {"castin2025"}
    assert chosen(["castin2025:lemma-4.?"])
    assert len(chosen(["castin2025", "castin2025:*"])) < len(every) + 1
    with pytest.raises(UnknownNameError, match="did you mean"):
        chosen(["castin2025:lemna-4.1"])


def plugin(tmp_path: Path, **values: float) -> Path:
    """A file of statements whose id no other test has."""
    text = PLUGIN
    for name, value in {
        "observed": 0.5,
        "control": 9.0,
        "printed": 3.0,
        **values,
    }.items():
        text = text.replace("{" + name + "}", str(value))
    unique = f"mine:{abs(hash(tmp_path.name))}"
    file = tmp_path / f"plugin_{abs(hash(tmp_path.name))}.py"
    file.write_text(text.replace("mine:one", unique))
    return file


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({}, "holds"),
        ({"observed": 1.5}, "fails"),
        ({"control": 1.02}, "holds, and so does its control"),
        ({"control": "float('nan')"}, "holds, and so does its control"),
        ({"printed": 1.0}, "holds, and so does the print"),
    ],
)
def test_the_exit_code_is_six_unless_all_went_as_it_must(
    cli: Callable[..., Finished], tmp_path: Path, values: dict, verdict: str
) -> None:
    file = plugin(tmp_path, **values)
    done = cli("verify", "mine:", "--plugin", file, "--json")
    found = json.loads(done.out)
    mine = [s for s in found["statements"] if s["id"].endswith(file.stem[7:])]
    statements._items.pop(mine[0]["id"])  # pyright: ignore[reportPrivateUsage]
    assert mine[0]["verdict"] == verdict
    assert done.code == (0 if verdict == "holds" else 6)
    if done.code:
        assert mine[0]["id"] in done.err
        assert done.err.count("\n") == 1


def test_bad_requests_are_one_line_each(
    cli: Callable[..., Finished], tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"format": "something"}')
    for arguments, words, code in [
        (("verify", "castin2025:lemma-99"), "No statement matches", 2),
        (("verify", "--jobs", "0"), "at least 1", 2),
        (("verify", "--size", "huge"), "quick", 2),
        (("verify", "lemma-4.1", "--replay", "none.json"), "none.json", 3),
        (("verify", "lemma-4.1", "--replay", other), "is no report", 3),
        (("verify", "explain"), "Name one", 2),
        (("verify", "explain", "castin2025"), "could be any of", 2),
    ]:
        done = cli(*arguments)
        assert (done.code, done.err.count("\n")) == (code, 1), done.err
        assert words in done.err


def test_explain_says_all_about_one_statement(cli: Callable[..., Finished]) -> None:
    done = cli("verify", "explain", "castin2025:lemma-4.1")
    assert done.code == 0
    for word in ("claim", "hypotheses", "protocol", "control", "tolerance", "holds"):
        assert word in done.out
    assert "Lemma 4.1" in done.out


def test_two_processes_find_the_numbers_of_one(cli: Callable[..., Finished]) -> None:
    ids = ("castin2025:lemma-4.1", "new:N1-global")
    one = json.loads(cli("verify", *ids, "--json").out)
    two = json.loads(cli("verify", *ids, "--json", "--jobs", "2").out)
    for each in (*one["statements"], *two["statements"]):
        each.pop("seconds")
    assert one == two


def test_a_report_is_replayed_at_its_witnesses(
    cli: Callable[..., Finished], tmp_path: Path
) -> None:
    first = cli("verify", "new:N1-global", "--json")
    file = tmp_path / "report.json"
    file.write_text(first.out)
    known = witnesses(json.loads(first.out))["new:N1-global"]["statement"]
    again = cli("verify", "new:N1-global", "--json", "--replay", file)
    numbers = lambda done: {
        c["label"]: c["observed"]
        for c in json.loads(done.out)["statements"][0]["trials"][0]["checks"]
        if c["label"] in known
    }
    assert known
    assert numbers(again) == pytest.approx(numbers(first), rel=1e-12)
    history = json.loads(again.out)["statements"][0]["trials"][0]["checks"][0]
    assert len(history["evidence"]["history"]) == 1
