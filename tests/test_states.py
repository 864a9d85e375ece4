"""Stationary states of noisy attention on spheres, against values computed apart."""

import numpy as np
import pytest
import scipy

from experiments.states import (
    StateEquation,
    ZonalKernel,
    check_attention,
    follow_branch,
    funk_hecke,
)
from meanfield.errors import InvalidInputError


def _equation(attention: str, beta: float, d: int = 2) -> StateEquation:
    return StateEquation(attention, ZonalKernel.from_beta(beta, d))


def _first_order(equation: StateEquation, kappa: float) -> float:
    u = equation.solve(equation.peak(kappa), kappa)
    return float(equation.kernel.orders(np.exp(u))[0])


@pytest.mark.parametrize("d", [2, 3, 5, 16])
def test_the_kernel_has_the_eigenvalues_of_funk_and_hecke(d: int) -> None:
    kernel = ZonalKernel.from_beta(3.0, d)
    for degree in (0, 1, 4):
        P = scipy.special.eval_chebyt(degree, kernel.cosines)
        if d > 2:
            P = scipy.special.eval_gegenbauer(degree, d / 2 - 1, kernel.cosines)
        expected = funk_hecke(degree, 3.0, d) * P
        np.testing.assert_allclose(kernel.apply(P), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("d", "degree"), [(2, 3), (3, 2), (8, 1)])
def test_the_eigenvalues_are_averages_of_the_kernel(d: int, degree: int) -> None:
    def polynomial(c: float) -> float:
        if d == 2:
            return np.cos(degree * np.arccos(c))
        P = scipy.special.gegenbauer(degree, d / 2 - 1)
        return P(c) / P(1.0)

    weight = lambda c: (1 - c**2) ** ((d - 3) / 2)
    integrand = lambda c: np.exp(2 * c) * polynomial(c) * weight(c)
    average = scipy.integrate.quad(integrand, -1, 1)[0]
    mass = scipy.integrate.quad(weight, -1, 1)[0]
    assert funk_hecke(degree, 2.0, d) == pytest.approx(average / mass, rel=1e-8)


def test_order_parameters_at_half_the_threshold() -> None:
    exp, softmax = _equation("exp", 1.0), _equation("softmax", 1.0)
    assert exp.threshold() == pytest.approx(0.565159103992, abs=1e-12)
    m_exp = _first_order(exp, exp.threshold() / 2)
    assert m_exp == pytest.approx(0.904976988101, abs=1e-11)
    m_softmax = _first_order(softmax, softmax.threshold() / 2)
    assert m_softmax == pytest.approx(0.826918500594, abs=1e-11)


def test_kuramoto_solves_its_self_consistent_equation() -> None:
    m = _first_order(_equation("kuramoto", 1.0), 0.4)
    assert m == pytest.approx(0.58970798778274, abs=1e-12)
    assert m == pytest.approx(
        scipy.special.iv(1, m / 0.4) / scipy.special.iv(0, m / 0.4)
    )


def test_a_state_solves_the_equation_of_a_different_discretisation() -> None:
    """The density at half the threshold, on the sphere, by adaptive quadrature."""
    equation = _equation("softmax", 3.0, 3)
    kappa, kernel = equation.threshold() / 2, equation.kernel
    u = equation.solve(equation.peak(kappa), kappa)
    coefficients = np.polynomial.legendre.legfit(kernel.cosines, u, 40)
    rho = lambda c: np.exp(np.polynomial.legendre.legval(c, coefficients))
    cosines = np.array([-0.9, 0.0, 0.7])

    def integral(c: float) -> float:
        """The azimuthal average of the kernel on S² is a Bessel function."""
        bessel = lambda y: scipy.special.i0(3 * np.sqrt((1 - c**2) * (1 - y**2)))
        integrand = lambda y: np.exp(3 * c * y) * bessel(y) * rho(y)
        return scipy.integrate.quad(integrand, -1, 1)[0]

    values = np.log([integral(c) for c in cosines])
    logs = np.log(rho(cosines))
    np.testing.assert_allclose(np.diff(values) / 3 / kappa, np.diff(logs), rtol=1e-9)


@pytest.mark.parametrize("attention", ["exp", "softmax"])
@pytest.mark.parametrize("d", [2, 4])
def test_growth_rates_of_the_uniform_density(attention: str, d: int) -> None:
    equation, kappa = _equation(attention, 2.0, d), 0.3
    rates = equation.growth_rates(np.zeros_like(equation.kernel.cosines), kappa)
    degrees = range(1, 49)
    expected = [k * (k + d - 2) * (equation.threshold(k) - kappa) for k in degrees]
    np.testing.assert_allclose(rates[:6], sorted(expected)[::-1][:6], rtol=1e-9)


def test_folds_and_transitions_on_the_circle() -> None:
    branch = follow_branch(_equation("exp", 3.0), 1.25, 1.4)
    assert branch.equation.threshold() == pytest.approx(1.317790072468, abs=1e-12)
    assert branch.folds == pytest.approx([1.3328710828], abs=1e-10)
    assert branch.transition == pytest.approx(1.3294552833, abs=1e-10)
    # The branch loses stability at its fold, and ends in the uniform density.
    upper = branch.orders[:, 0] > branch.orders[np.argmax(branch.kappa), 0]
    assert np.all(branch.growth_rate[upper] < 0)
    assert np.all(branch.growth_rate[~upper][1:-1] > 0)
    assert branch.orders[-1, 0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("attention", "beta"), [("exp", 1.0), ("softmax", 9.0)])
def test_a_continuous_transition_has_no_fold(attention: str, beta: float) -> None:
    equation = _equation(attention, beta)
    k = equation.threshold()
    branch = follow_branch(equation, 0.8 * k, 2 * k)
    assert branch.folds == ()
    assert np.isnan(branch.transition)
    assert branch.kappa.max() == k


def test_the_transition_changes_type_where_a_ratio_of_bessel_functions_is_one_over_d():
    r"""$\\beta^*_d$ solves $I_{d/2+1}/I_{d/2} = 1/d$; 2.44691831128904613 for d = 2."""
    for beta, n_folds in ((2.40, 0), (2.50, 1)):
        equation = _equation("exp", beta)
        k = equation.threshold()
        assert len(follow_branch(equation, 0.95 * k, 1.1 * k).folds) == n_folds


def test_growth_rates_that_modes_do_not_resolve_are_nan() -> None:
    equation = _equation("exp", 9.0, 8)
    k = equation.threshold()
    u = equation.solve(equation.peak(k), k)
    assert np.isnan(equation.growth_rate(u, k))


def test_attention_without_a_potential_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="velocities are gradients"):
        check_attention("sigmoid")
