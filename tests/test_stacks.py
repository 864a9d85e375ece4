"""Properties of stacks of measures, against those of each member."""

import inspect
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from meanfield.attention import attentions
from meanfield.distances import sliced_wasserstein, wasserstein
from meanfield.dynamics import stack_trees
from meanfield.energies import QuadraticPotential
from meanfield.errors import WrongKindError
from meanfield.fields import Affine, Convergence
from meanfield.flows import Trajectory
from meanfield.flows.watch import BlowUpTime
from meanfield.measures import (
    AbstractMeasure,
    Facing,
    Gaussian,
    Grid,
    Points,
    Quadrature,
    Tensor,
)
from meanfield.tokens import Tokens

STATIC = {"card", "dimension", "batch_shape"}


def points(rng: np.random.Generator, d: int) -> Points:
    x, logs = rng.normal(size=(3, d)), rng.normal(size=3)
    logs[0] = -np.inf
    return Points(Tokens(jnp.asarray(x), jnp.arange(3.0)), jnp.asarray(logs))


def gaussian(rng: np.random.Generator, d: int) -> Gaussian:
    return Gaussian(
        jnp.asarray(rng.normal(size=d)), jnp.asarray(rng.normal(size=(d, 2)))
    )


def grid(rng: np.random.Generator, d: int) -> Grid:
    edges, position = [np.linspace(-1, 1, 9)] * d, np.array([0.2, 0.8])
    density = rng.uniform(1, 2, size=(2, *(8,) * d))
    mu = Grid.from_density(edges, density, position=position)
    state = mu.state._replace(origin=jnp.asarray(rng.normal(size=d)))
    return mu.replace_coordinates(state)


MAKERS: dict[str, Callable[[np.random.Generator, int], AbstractMeasure]] = {
    "points": points,
    "gaussian": gaussian,
    "quadrature": lambda rng, d: Quadrature.from_rule(gaussian(rng, d), Tensor(2)),
    "facing": lambda rng, d: Facing(gaussian(rng, d), points(rng, d)),
    "grid": grid,
}


def answers(mu: AbstractMeasure) -> dict[str, object]:
    """All properties of a measure that need no field."""
    kinds = inspect.getmembers_static(type(mu), lambda part: isinstance(part, property))
    names = {name for name, _ in kinds if name[0] != "_"} - STATIC
    actual = {name: getattr(mu, name) for name in names}
    actual |= {"norm": mu.norm(mu.coordinates), "error": mu.error_norm(mu.coordinates)}
    if isinstance(mu, Grid):
        actual["tokens"] = mu.points()
    if not isinstance(mu, Facing):
        actual["energy"] = QuadraticPotential(jnp.eye(mu.dimension))(mu)
    if isinstance(mu, Points):
        actual["restricted"] = mu.restrict(mu.tokens.x[..., 0] > -1)
    return actual


ALL_SIZES, FEW_SIZES = [(1, 1), (1, 5), (2, 2), (2, 5)], [(1, 1), (2, 2)]
CASES = [
    (kind, *shape)
    for kind in MAKERS
    for shape in (ALL_SIZES if kind in ("points", "gaussian") else FEW_SIZES)
]


@pytest.mark.parametrize(("kind", "d", "members"), CASES)
def test_stack_properties_match_the_members(kind: str, d: int, members: int) -> None:
    """One member, as many as dimensions (where axes are easily mixed up), and more."""
    rng = np.random.default_rng(members)
    single_measures = [MAKERS[kind](rng, d) for _ in range(members)]
    stack = stack_trees(single_measures)
    assert stack.batch_shape == (members,)
    assert stack.dimension == d
    ask = eqx.filter_jit(answers)
    single_answers = [ask(mu) for mu in single_measures]
    expected = jax.tree.map(lambda *leaves: np.stack(leaves), *single_answers)
    actual = ask(stack)
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(*map(jax.tree.leaves, (actual, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def _ensemble() -> Trajectory[Points]:
    mu = Points.uniform(np.eye(2))
    whole, real = jnp.zeros((), int), jnp.zeros(())
    run = Trajectory(
        ts=jnp.array([0.0, 1.0]),
        coordinates=jnp.stack([mu.tokens.x] * 2),
        start=mu,
        last=mu.tokens.x,
        code=whole,
        stop_time=real,
        n_saved=whole,
        blow_up=BlowUpTime(real, real),
        n_accepted=whole,
        n_rejected=whole,
        residual=real,
        sum_error=real,
        convergence_failure=Convergence(real, real, whole),
        prediction=BlowUpTime(real, real),
    )
    return stack_trees([run, run])


@pytest.mark.parametrize(
    "ask",
    [
        lambda runs: runs.frame(0),
        lambda runs: runs[0],
        lambda runs: runs.map(lambda mu: mu.mean),
        lambda runs: runs.covariance,
        lambda runs: runs.status,
        lambda runs: runs.final.transport(Affine(jnp.eye(2), jnp.zeros(2))),
        lambda runs: wasserstein(runs.final, runs.final),
        lambda runs: sliced_wasserstein(runs.final, runs.final),
        lambda runs: QuadraticPotential(jnp.eye(2)).variation(runs.final),
        lambda runs: attentions["softmax"](*[jnp.eye(2)] * 3).field(0.0, runs.final),
        lambda runs: (
            runs.member(0).start.replace_coordinates(jnp.zeros((3, 2, 2))).mean
        ),
    ],
)
def test_single_measure_properties_reject_a_stack(ask: Callable[..., object]) -> None:
    with pytest.raises(WrongKindError, match=r"stack|ensemble") as error_info:
        ask(_ensemble())
    assert "\n" not in str(error_info.value)


def test_n_tokens_of_a_stack_is_per_member() -> None:
    assert Tokens(jnp.zeros((5, 3, 2))).n == 3
