"""Branches of stationary states, continued through folds by pseudo-arclength."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from .equation import TOLERANCE, StateEquation

if TYPE_CHECKING:
    import xarray

FIRST_STEP = 0.02  # of the arclength, in which ∫(δu)²ρ dσ and (δκ/κ)² are added
LARGEST_STEP, SMALLEST_STEP = 0.1, 1e-8
MAX_STEPS = 2000
NEWTON_STEPS = 8
VANISHING = 1e-4  # order parameter below which a branch has met the uniform density


class State(NamedTuple):
    """A stationary state: the logarithm of its density, a constant, and κ."""

    u: Float[np.ndarray, " m"]
    constant: float
    kappa: float

    @property
    def vector(self) -> np.ndarray:
        """All unknowns."""
        return np.concatenate([self.u, [self.constant, self.kappa]])

    @classmethod
    def from_vector(cls, x: np.ndarray) -> "State":
        """The state with given unknowns."""
        return cls(x[:-2], float(x[-2]), float(x[-1]))


@dataclass(frozen=True)
class Branch:
    r"""Stationary states along a curve, in order.

    Attributes:
        equation: the equation that they solve.
        kappa: diffusivities.
        log_density: $\log\rho$ at the nodes of the kernel.
        orders: order parameters $\int P_k\rho\,d\sigma$, $k = 1, …, 8$.
        free_energy: free energies; NaN for softmax.
        growth_rate: largest growth rates of zonal perturbations; NaN if not resolved.
        folds: diffusivities at which the branch turns.
        transition: diffusivity at which the free energy is that of the uniform
            density, where the phase transition is of first order; NaN if there is none.

    Examples:
        >>> from experiments.states import StateEquation, ZonalKernel, follow_branch
        >>> equation = StateEquation("exp", ZonalKernel.from_beta(3.0, 2))
        >>> branch = follow_branch(equation, 1.25, 1.4)
        >>> print(equation.threshold(), branch.folds, branch.transition)
        1.31779... (1.33287...,) 1.32945...
    """

    equation: StateEquation
    kappa: Float[np.ndarray, " points"]
    log_density: Float[np.ndarray, "points m"]
    orders: Float[np.ndarray, "points 8"]
    free_energy: Float[np.ndarray, " points"]
    growth_rate: Float[np.ndarray, " points"]
    folds: tuple[float, ...]
    transition: float

    def _remark(self) -> str:
        """The threshold, the folds and the transition, in words."""
        threshold = self.equation.threshold()
        notes = [f"β = {self.equation.kernel.beta:g}"]
        notes += [f"uniform unstable below κ = {threshold:.6g}"]
        notes += [f"fold at κ = {kappa:.6g}" for kappa in self.folds]
        if np.isfinite(self.transition):
            notes += [f"equal free energies at κ = {self.transition:.6g}"]
        return "; ".join(notes)

    def dataset(self) -> "xarray.Dataset":
        """The branch with its threshold, as a dataset for pictures and tables."""
        import xarray

        kernel, name = self.equation.kernel, self.equation.attention
        place = "circle" if kernel.d == 2 else f"sphere, d = {kernel.d}"
        return xarray.Dataset(
            {
                "kappa": ("point", self.kappa),
                "order": (("point", "degree"), self.orders),
                "free_energy": ("point", self.free_energy),
                "growth_rate": ("point", self.growth_rate),
                "density": (("point", "node"), np.exp(self.log_density)),
                "cosine": ("node", kernel.cosines),
            },
            {"degree": np.arange(1, self.orders.shape[1] + 1)},
            {
                "kind": "states",
                "title": f"stationary states of noisy {name} attention on the {place}",
                "remark": self._remark(),
                "threshold": self.equation.threshold(),
                "folds": self.folds,
                "transition": self.transition,
                "uniform_free_energy": self.equation.free_energy(
                    np.zeros_like(kernel.cosines), 1.0
                ),
            },
        )


def follow_branch(
    equation: StateEquation, low: float, high: float, *, degree: int = 1
) -> Branch:
    """The branch of states with `degree` peaks, from `low` to the uniform density.

    It starts at the diffusivity `low`, and ends where it meets the uniform density,
    or leaves the interval.

    Raises:
        NotClosedError: if no state was found at `low`.
    """
    u = equation.solve(equation.peak(low, degree), low)
    constant = float(np.mean(equation.potential(u).values / low - u))
    states = [State(u, constant, low)]
    tangents = [_tangent(equation, states[0], None)]
    step = FIRST_STEP
    while len(states) < MAX_STEPS and step > SMALLEST_STEP:
        state, count = _correct(equation, states[-1], tangents[-1], step)
        if state is None:
            step /= 2
            continue
        order = equation.kernel.orders(np.exp(state.u))[degree - 1]
        if order < VANISHING:  # the branch has crossed the uniform density
            return _describe(equation, states, tangents, equation.threshold(degree))
        states.append(state)
        tangents.append(_tangent(equation, state, tangents[-1]))
        if not low <= state.kappa <= high:
            break
        step = min(LARGEST_STEP, step * (1.5 if count <= 3 else 0.7))
    return _describe(equation, states, tangents, None)


def _metric(equation: StateEquation, state: State) -> np.ndarray:
    """Weights of the squares in the arclength near a state."""
    shares = equation.kernel.weights * np.exp(state.u)
    return np.concatenate([shares, [0.0, 1 / state.kappa**2]])


def _tangent(
    equation: StateEquation, state: State, previous: np.ndarray | None
) -> np.ndarray:
    """The unit tangent of the branch, in the direction of the previous one.

    Without a previous one, it is that of larger diffusivities.
    """
    metric, J = _metric(equation, state), equation.jacobian(state.u, state.kappa)
    row = np.eye(J.shape[1])[-1] if previous is None else metric * previous
    right = np.eye(J.shape[1])[-1]
    t = np.linalg.solve(np.vstack([J, row]), right)
    return t / np.sqrt(metric @ t**2)


def _correct(
    equation: StateEquation, state: State, tangent: np.ndarray, step: float
) -> tuple[State | None, int]:
    """The state at a distance along the tangent, and the number of Newton steps.

    The state is `None` if the iteration did not converge.
    """
    row, x = _metric(equation, state) * tangent, state.vector + step * tangent
    for count in range(NEWTON_STEPS):
        if not x[-1] > 0:
            return None, count
        trial = State.from_vector(x)
        F = equation.residual(trial.u, trial.constant, trial.kappa)
        distance = row @ (x - state.vector) - step
        if np.abs(F).max() <= TOLERANCE * (1 + np.abs(trial.u).max()):
            return trial, count
        J = np.vstack([equation.jacobian(trial.u, trial.kappa), row])
        x = x + np.linalg.solve(J, -np.append(F, distance))
    return None, NEWTON_STEPS


def _root(
    equation: StateEquation,
    ends: list[State],
    tangent: np.ndarray,
    function: Callable[[State, np.ndarray], float],
) -> float:
    """The diffusivity between two states at which a function changes sign."""
    first, last = ends
    whole = _metric(equation, first) * tangent @ (last.vector - first.vector)

    def at(step: float) -> State:
        state, _ = _correct(equation, first, tangent, step)
        assert state is not None, f"no state at {step}"
        return state

    def value(step: float) -> float:
        state = at(step)
        return function(state, _tangent(equation, state, tangent))

    return at(scipy.optimize.brentq(value, 0, whole, xtol=1e-14)).kappa


def _roots(
    equation: StateEquation,
    states: list[State],
    tangents: list[np.ndarray],
    function: Callable[[State, np.ndarray], float],
) -> tuple[float, ...]:
    """Diffusivities at which a function of state and tangent changes sign."""
    values = [function(*pair) for pair in zip(states, tangents, strict=True)]
    roots = []
    for i in range(1, len(states)):
        if not values[i - 1] * values[i] < 0:
            continue
        roots.append(_root(equation, states[i - 1 : i + 1], tangents[i - 1], function))
    return tuple(roots)


def _describe(
    equation: StateEquation,
    states: list[State],
    tangents: list[np.ndarray],
    threshold: float | None,
) -> Branch:
    """The branch through the given states, with its folds and its transition.

    It ends in the uniform density at the diffusivity `threshold`, unless that is
    `None`.
    """
    zero = np.zeros_like(states[0].u)
    excess = lambda state, _: (
        equation.free_energy(state.u, state.kappa)
        - equation.free_energy(zero, state.kappa)
    )
    transitions = _roots(equation, states, tangents, excess)
    folds = _roots(equation, states, tangents, lambda _, tangent: float(tangent[-1]))
    if threshold is not None:
        states = [*states, State(zero, 0.0, threshold)]
    return Branch(
        equation,
        np.array([s.kappa for s in states]),
        np.stack([s.u for s in states]),
        np.stack([equation.kernel.orders(np.exp(s.u)) for s in states]),
        np.array([equation.free_energy(s.u, s.kappa) for s in states]),
        np.array([equation.growth_rate(s.u, s.kappa) for s in states]),
        folds,
        transitions[0] if transitions else float("nan"),
    )
