"""Claims under corrected hypotheses, against SciPy and by hand."""

import functools
from typing import Any

import numpy as np
import pytest
from helpers import assert_reportable

from experiments.covariances import definite as definite_values
from experiments.covariances.definite import decay, has_rest
from experiments.covariances.parameters import definite, gaussian_entries, negative
from meanfield.reproduce import Case, Findings, load
from tests.covariance_reference import integrate_covariances, linear_of

LATE = ("fig1a", "fig4b", "fig7a")  # left to the slow run
panels = pytest.mark.parametrize(
    "panel", ["fig4c", *(pytest.param(name, marks=pytest.mark.slow) for name in LATE)]
)


@functools.cache
def findings_of(panel: str) -> Findings:
    corrected_experiment = load(f"castin2025-{panel}").read_as("corrected")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(definite_values, "DRAWS", 12)
        patch.setattr(definite_values, "END_TIME", 1e4)
        return corrected_experiment.compute(Case("quick", "corrected"))


def covariances(findings: Findings) -> np.ndarray:
    """Covariances of all frames, with shape (runs, times, 2, 2)."""
    Y = findings.data["family"]["factor"].values
    return Y @ np.swapaxes(Y, -1, -2)


@pytest.mark.slow_cases("fig4c")
@panels
def test_all_covariances_decay_like_one_over_t(panel: str) -> None:
    numbers = findings_of(panel).numbers
    assert numbers["endings"] == {"finished": numbers["starts"]}
    assert numbers["converged"] == numbers["starts"]
    assert numbers["blow_ups"] == 0
    # Not all have reached the power -1 yet; two heads have two successive regimes.
    assert -1.7 < numbers["power"]["min"] <= numbers["power"]["max"] < -0.75
    assert numbers["max_increase"] < 0


@pytest.mark.slow
@panels
def test_the_corrected_value_matrix_is_definite(panel: str) -> None:
    V = np.array(findings_of(panel).spec["corrected"]["V"])
    text = np.array(gaussian_entries()["V"])
    np.testing.assert_array_equal(V, V.T)
    np.testing.assert_allclose(V, text @ text.T, rtol=1e-12)
    assert np.min(np.linalg.eigvalsh(V)) > 0
    assert (
        np.min(np.linalg.eigvalsh(text + text.T)) < 0
    )  # the printed one is not definite


@panels
def test_limits_match_scipy(panel: str) -> None:
    findings = findings_of(panel)
    spec, ends = findings.spec["corrected"], covariances(findings)
    exact = integrate_covariances(linear_of(spec), ends[:, 0], spec["t"])
    gap = np.linalg.norm(ends[:, -1] - exact, axis=(1, 2))
    assert np.max(gap / np.linalg.norm(exact, axis=(1, 2))) < 1e-7


@pytest.mark.slow
def test_softmax_stays_below_the_bound_that_follows_from_the_hypothesis() -> None:
    """tr VΣ ≤ 1 / (1 / tr VΣ₀ + λt/d) at all times; not for V = -1."""
    findings = findings_of("fig1a")
    spec, times = findings.spec["corrected"], findings.data["family"]["time"].values
    Q, V = np.array(spec["Q"]), np.array(spec["V"])
    low = np.min(np.linalg.eigvalsh(2 * Q.T @ Q))
    sizes = np.einsum("ij,rtji->rt", V, covariances(findings))
    assert np.max(sizes * (1 / sizes[:, :1] + low * times / 2)) < 1 + 1e-9
    # The control: against -V the same trace grows at once.
    start = covariances(findings)[:1, 0]
    later_covariances = integrate_covariances(
        linear_of({**spec, "V": negative(spec["V"])}), start, 0.1
    )[0]
    assert np.trace(V @ later_covariances) > sizes[0, 0]


def test_the_power_of_a_known_law() -> None:
    times = np.linspace(0.0, 8.0, 9)
    laws = np.stack([(times + 1e-12) ** -1.0, np.full(9, 2.0), 3 * times**2 + 1e-300])
    np.testing.assert_allclose(decay(times, laws), [-1, 0, 2], atol=1e-9)


def rests_by_dual_scan(values: dict[str, Any]) -> bool:
    """Whether a covariance is at rest under two heads, by the dual: no diagonal D has
    VDQ + its transpose positive."""
    Q, V = np.array(values["Q"]), np.array(values["V"])
    angles = np.linspace(0, 2 * np.pi, 20_001)
    D = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    forms = V @ (D[:, :, None] * Q)
    lowest = np.linalg.eigvalsh(forms + np.swapaxes(forms, 1, 2))[:, 0]
    return float(np.max(lowest)) <= 0


def test_rest_under_two_heads_matches_the_dual_criterion() -> None:
    draws = [definite(gaussian_entries(draw)) for draw in range(60)]
    answers = [has_rest(draw, 2) for draw in draws]
    assert answers == [rests_by_dual_scan(draw) for draw in draws]
    assert 0 < sum(answers) < 60
    assert not any(has_rest(draw, 1) for draw in draws)


def test_two_heads_come_to_rest_at_the_ray_and_go_to_zero_without() -> None:
    """The draws 1 and 2 in SciPy: at t = 200 and twice that."""
    scales, start = findings_of("fig4c").numbers["others"], np.eye(2)[None] / 2
    assert scales["blow_ups"] == 0
    assert scales["to_rest"] == scales["to_rest_with_rest"] > 0
    n_decided = scales["to_zero"] + scales["to_rest"]
    assert n_decided + scales["undecided"] == scales["draws"]
    for draw in (1, 2):
        values = {**definite(gaussian_entries(draw)), "heads": 2}
        linear = linear_of(values)
        first, last = (
            np.trace(integrate_covariances(linear, start, t)[0]) for t in (200, 400)
        )
        if has_rest(values, 2):
            assert last == pytest.approx(first, rel=1e-3)
        else:
            assert last < 0.75 * first


@pytest.mark.slow
def test_one_head_has_no_such_rest() -> None:
    scales = findings_of("fig1a").numbers["others"]
    assert scales["with_rest"] == scales["to_rest"] == scales["blow_ups"] == 0
    assert scales["to_zero"] >= 9  # the others have not converged yet


@panels
def test_findings_are_json_and_can_be_plotted(panel: str) -> None:
    corrected_experiment = load(f"castin2025-{panel}").read_as("corrected")
    assert_reportable(corrected_experiment, findings_of(panel))
    figure = corrected_experiment.draw(findings_of(panel))
    assert "V symmetric and positive definite" in str(
        [axes.get_title(loc="left") for axes in figure.axes] + [figure.get_suptitle()]
    )
