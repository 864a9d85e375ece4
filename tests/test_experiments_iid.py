"""Ranks for independent entries of V: against orbits in closed form.

In space Q has one row q and the moving vector satisfies u' = -(q·u)² Vu, up to a
positive factor under L2. So u follows exp(-τV)u₀, and stops where q·u vanishes.
"""

from typing import NamedTuple

import numpy as np
import pytest
from helpers import assert_reportable
from scipy.integrate import quad

from experiments.ranks import counts, flows, independent, samples
from meanfield.reproduce import Case, Experiment, Findings, load

N = 20
FIGURES = ["castin2025-fig3", pytest.param("castin2025-fig8", marks=pytest.mark.slow)]


class Orbit(NamedTuple):
    """q·u as a sum of exponentials of τ."""

    weights: np.ndarray
    rates: np.ndarray

    def __call__(self, tau: float | np.ndarray) -> np.ndarray:
        return np.exp(np.multiply.outer(tau, -self.rates)) @ self.weights

    @property
    def rests(self) -> bool:
        """Whether it passes through zero, or tends to it."""
        tau = np.linspace(0, 60, 60_001)
        scaled = np.exp(np.multiply.outer(tau, self.slowest - self.rates))
        signs = np.sign(np.real(scaled @ self.weights))
        return bool(np.any(signs != signs[0]) or self.slowest > 0)

    @property
    def slowest(self) -> float:
        """The slowest rate; negative if the sum grows."""
        return float(np.min(np.real(self.rates)))


def orbits(draw: flows.Samples) -> list[Orbit]:
    starts = flows.split_factors(draw)[1][..., 0]
    collected = []
    for q, V, u in zip(draw.Q[:, 0], draw.W, starts, strict=True):
        rates, S = np.linalg.eig(V)
        collected.append(Orbit((q @ S) * np.linalg.solve(S, u.astype(complex)), rates))
    return collected


@pytest.fixture(scope="module", params=FIGURES)
def experiment_and_findings(
    request: pytest.FixtureRequest,
) -> tuple[Experiment, Findings]:
    experiment = load(request.param).read_as("iid")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(counts.SIZES, "quick", ((3,), N))
        return experiment, experiment.compute(Case("quick", "iid"))


@pytest.fixture(
    scope="module", params=["softmax", pytest.param("l2", marks=pytest.mark.slow)]
)
def panel(request: pytest.FixtureRequest) -> samples.Panel:
    steps = {"random": {3: 0.09}}
    return samples.compute_panel(samples.Recipe(request.param, steps), "iid", 3, N)


def test_samples_converge_where_their_orbits_meet_the_kernel(
    panel: samples.Panel,
) -> None:
    expected = [orbit.rests for orbit in orbits(flows.draw_samples(3, N))]
    assert 0 < sum(expected) < N
    assert independent.is_converged(panel).tolist() == expected
    is_blow_up = np.array(panel.solutions.endings) == "blow-up"
    assert is_blow_up.tolist() == [not rests for rests in expected]


def test_limits_have_the_rank_of_the_kernel(panel: samples.Panel) -> None:
    is_settled = independent.is_converged(panel)
    assert np.all(independent.limit_ranks(panel)[is_settled] == 2)


def test_softmax_blows_up_at_the_time_of_its_orbit() -> None:
    r"""$t^* = \int_0^\infty (q \cdot u)^{-2}\, d\tau$."""
    draw = flows.draw_samples(3, N)
    exact = flows.solve("softmax", draw, draw.W)
    for orbit, t_star in zip(orbits(draw), exact.t_star, strict=True):
        if orbit.rests:
            assert np.isnan(t_star)
            continue
        far = -60 / orbit.slowest  # where the integrand is e⁻¹²⁰
        expected = quad(lambda s, o=orbit: np.real(o(s)) ** -2.0, 0, far, limit=400)[0]
        assert t_star == pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
def test_l2_grows_exponentially_at_most() -> None:
    draw = flows.draw_samples(3, N)
    exact = flows.solve("l2", draw, draw.W)
    assert np.all(np.isnan(exact.t_star))


def test_every_sample_is_counted_once(
    experiment_and_findings: tuple[Experiment, Findings],
) -> None:
    numbers, data = (
        experiment_and_findings[1].numbers["all"],
        experiment_and_findings[1].data["ranks"],
    )
    endings = ("converged", "blow_ups", "exceed_size_bound", "undecided")
    assert sum(numbers[name] for name in endings) == N
    bars = [data["solved"].sum(), data["unbounded"].sum(), data["undecided"].sum()]
    assert sum(int(bar) for bar in bars) == N
    bars = [data["kept"].sum(), data["excess_rank"].sum(), data["diverged"].sum()]
    assert sum(int(bar) for bar in bars) == N


def test_findings_are_json_and_can_be_plotted(
    experiment_and_findings: tuple[Experiment, Findings],
) -> None:
    experiment, findings = experiment_and_findings
    assert_reportable(experiment, findings)
    figure = experiment.draw(findings)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "d = 3",
        "d = 3, by threshold",
    ]
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert ticks == ["0", "1", "2", "3", "grow", "other"]
    assert figure.legends
