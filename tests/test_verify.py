"""The machinery of `verify`: passing, failing, replaying."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import jax.numpy as jnp
import numpy as np
import ot
import pytest

from meanfield.errors import UnknownNameError
from meanfield.theorems import (
    Case,
    Check,
    Counterexample,
    Identity,
    Statement,
    report,
    select_statements,
    statements,
    verify_statement,
)
from meanfield.theorems import statement as registered_statement
from meanfield.theorems._ascents import ascend
from meanfield.theorems._protocols import gap, order, z_score
from meanfield.theorems.reference import alternation
from meanfield.theorems.reference.measures import wasserstein


def check(observed: float, **changes: object) -> Check:
    return Check("x", observed, "<=", 1.0, 0.01, "why")._replace(**changes)


@pytest.mark.parametrize(
    ("example", "holds", "violated"),
    [
        (check(0.5), True, False),
        (check(1.005), True, False),
        (
            check(1.05),
            False,
            False,
        ),  # neither: the violation is too small for a control
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
    example: Check, holds: bool, violated: bool
) -> None:
    assert (example.holds, example.is_violated) == (holds, violated)


def test_gap_is_relative_and_rejects_other_shapes() -> None:
    comparison = gap("x", [1.0, 2.2], [1.0, 2.0], tolerance=0.05, why="")
    assert comparison.observed == pytest.approx(0.1)
    with pytest.raises(ValueError, match="equal shapes"):
        gap("x", [1.0], [[1.0]], tolerance=1, why="")


def test_an_identity_compares_both_sides_on_every_case() -> None:
    cases = {"small": [1.0, 2.0], "large": [10.0, 20.0]}
    shift = lambda x: [x[0] + 1, x[1]]
    small, large = Identity(shift, lambda x: x, cases, tolerance=0.1, why="")
    assert (small.label, large.label) == ("small", "large")
    assert (small.observed, large.observed) == pytest.approx((0.5, 0.05))
    assert small.excess > small.tolerance
    assert large.holds


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_an_order_is_fitted_despite_the_next_order(power: float) -> None:
    eps = np.array([0.04, 0.02, 0.01, 0.005])
    errors = 3 * eps**power * (1 + eps)
    assert order("x", eps, errors, power).holds
    assert order("x", eps, errors, power + 1).is_violated
    assert order("x", eps, errors, power - 1).is_violated


def test_z_scores_separate_fair_and_biased_samples(rng: np.random.Generator) -> None:
    sample = rng.normal(size=10_000)
    error = float(sample.std() / 100)
    assert z_score("x", float(sample.mean()), 0.0, error).holds
    assert z_score("x", float(sample.mean()), 0.5, error).is_violated


def test_exact_transport_of_two_shifted_clouds_is_the_shift(
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=(6, 2))
    for p in (1, 2):
        assert wasserstein(x, x[::-1] + 3, p) == pytest.approx(3 * np.sqrt(2))


def test_the_reference_alternation_converges_to_pots_plan(
    rng: np.random.Generator,
) -> None:
    scores, w, v = rng.normal(size=(4, 5)), rng.dirichlet(np.ones(4)), np.full(5, 0.2)
    plan = np.asarray(ot.sinkhorn(w, v, -scores, 1.0, "sinkhorn_log", stopThr=1e-15))
    # Entropy relative to the marginals, which is ours, has the same minimiser.
    f, g = alternation.converged_state(
        alternation.potentials(scores, w, v),
        lambda old, new: np.ptp(new[1] - old[1]),
        tolerance=1e-14,
    )
    ours = np.exp(scores + f[:, None] + g[None, :]) * np.outer(w, v)
    np.testing.assert_allclose(ours, plan, rtol=1e-9)


@pytest.mark.parametrize("count", range(1, 6))
def test_half_steps_are_the_same_in_logarithms_and_in_scalings(
    count: int, rng: np.random.Generator
) -> None:
    scores, w, v = rng.normal(size=(4, 5)), rng.dirichlet(np.ones(4)), np.full(5, 0.2)
    f, g = alternation.nth_state(alternation.potentials(scores, w, v), count)
    rows, columns = alternation.nth_state(
        alternation.scalings(np.exp(scores), w, v), count
    )
    np.testing.assert_allclose(np.exp(f), rows, rtol=1e-13)
    np.testing.assert_allclose(np.exp(g), columns, rtol=1e-13)
    density = np.exp(scores + f[:, None] + g[None, :])
    marginal = density @ v if count % 2 else w @ density
    np.testing.assert_allclose(marginal, 1, rtol=1e-13)  # that of the last half-step


def bump(free: dict) -> jnp.ndarray:
    """A log-ratio with maximum log 2 at 0.3."""
    return jnp.log(2.0) - jnp.sum((free["x"] - 0.3) ** 2)


def test_an_ascent_finds_the_maximum_and_is_replayed() -> None:
    import jax

    start = lambda key: {"x": jax.random.normal(key, (2,))}
    actual = ascend(Case("a:b"), "top", bump, start, bound=1.0)
    assert actual.observed == pytest.approx(2, abs=1e-4)
    assert actual.is_violated
    witness = actual.evidence.witness  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    replayed = ascend(Case("a:b", witnesses={"top": witness}), "top", bump, start)
    assert replayed.observed == pytest.approx(actual.observed, rel=1e-12)


def test_draws_depend_on_statement_and_seed_only() -> None:
    draw = lambda case, name: case.rng(name).normal()
    same_draws = draw(Case("a:b", "quick", 3), "Q"), draw(Case("a:b", "full", 3), "Q")
    assert same_draws[0] == same_draws[1]
    other_draws = [
        draw(Case("a:b", seed=4), "Q"),
        draw(Case("a:c", seed=3), "Q"),
        draw(Case("a:b", seed=3), "K"),
    ]
    assert len({same_draws[0], *other_draws}) == 4


def test_an_exception_counts_as_failure_not_refutation() -> None:
    @registered_statement("test:raises", source="", claim="")
    def raises(case: Case) -> tuple[Check, ...]:
        raise ZeroDivisionError("no such number")

    @raises.register_misprint("X", claim="", correction="", counterexample="")
    def _(case: Case) -> Counterexample:
        return Counterexample((check(5.0),), (check(0.5),))

    try:
        outcome = verify_statement("test:raises")
        actual = report([outcome], "quick", 0)["statements"][0]
    finally:
        statements._items.pop("test:raises")  # pyright: ignore[reportPrivateUsage]
    assert [t.has_passed for t in outcome.trials] == [False, False, True, True]
    assert outcome.trials[0].error == "ZeroDivisionError: no such number"
    assert outcome.trials[1].error == "there is no control"
    assert actual["verdict"] == "error"


@contextmanager
def halving_statement() -> Iterator[Statement]:
    """A temporarily registered statement with a keyword: half of two is one."""

    @registered_statement("test:halved", source="", claim="")
    def measure(case: Case, *, share: float = 0.5) -> tuple[Check, ...]:
        result = check(2 * share, relation="=")
        return result, result._replace(label="y"), check(1.0)._replace(label="still")

    try:
        yield measure
    finally:
        statements._items.pop("test:halved")  # pyright: ignore[reportPrivateUsage]


def test_a_control_is_its_statement_with_a_keyword_broken() -> None:
    with halving_statement() as statement:
        statement.set_control("a third", labels=("x", "y…"), share=1 / 3)
        outcome = verify_statement("test:halved")
        assert [t.has_passed for t in outcome.trials] == [True, True]
        assert [c.label for c in outcome.trials[1].checks] == ["x", "y"]
        assert outcome.trials[1].checks == statement(Case("x"), share=1 / 3)[:2]
        statement.set_control("a third, and what does not see it", share=1 / 3)
        assert not verify_statement("test:halved").trials[1].has_passed


def test_an_ineffective_control_is_reported() -> None:
    with halving_statement() as statement:
        with pytest.raises(
            TypeError, match=r"halved` has no keyword `part`; its keywords are: share"
        ):
            statement.set_control("a part", part=1 / 3)
        statement.set_control("a third", labels=("x", "z"), share=1 / 3)
        control = verify_statement("test:halved").trials[1]
        assert not control.has_passed
        assert control.error == "LookupError: No check has the label `z`."


BROKEN_CONTROLS = [s for s in statements.values() if s.control and s.control.changes]


@pytest.mark.parametrize(
    "statement", BROKEN_CONTROLS, ids=lambda statement: statement.id
)
def test_controls_change_a_keyword_default(statement: Statement) -> None:
    assert statement.control is not None
    keywords = inspect.signature(statement.measure).parameters
    for name, value in statement.control.changes.items():
        assert keywords[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert value is not keywords[name].default
        if isinstance(value, int | float | str):
            assert value != keywords[name].default


def test_controls_are_mostly_data() -> None:
    assert len(BROKEN_CONTROLS) >= 109


def test_an_attention_selects_the_statements_that_use_it() -> None:
    sinkhorn = {entry.id for entry in select_statements(["sinkhorn"])}
    assert "new:sinkhorn-derivatives" in sinkhorn  # by its id
    assert "sander2022:prop-2-factor" in sinkhorn  # by its code
    assert "new:N4" not in sinkhorn  # relu
    relu = {entry.id for entry in select_statements(["relu"])}
    assert "new:N4" in relu
    assert len(select_statements(["relu", "sinkhorn"])) == len(relu | sinkhorn)


def test_patterns_choose_by_id_part_alias_paper_and_wildcard() -> None:
    all_statements = select_statements()
    pattern = "castin2025:lemma-4.1"
    assert [s.id for s in select_statements([pattern])] == [pattern]  # and not 4.10
    for statement in all_statements:
        assert all(
            select_statements([name]) == [statement]
            for name in (statement.id, *statement.aliases)
        )
    assert len(select_statements(["lemma-4.1"])) > 1
    assert {s.paper for s in select_statements(["castin2025"])} == {"castin2025"}
    assert select_statements(["castin2025:lemma-4.?"])
    assert (
        len(select_statements(["castin2025", "castin2025:*"])) < len(all_statements) + 1
    )
    with pytest.raises(UnknownNameError, match="did you mean"):
        select_statements(["castin2025:lemna-4.1"])
    with pytest.raises(UnknownNameError, match="did you mean `sinkhorn`"):
        select_statements(["sinkhron"])
