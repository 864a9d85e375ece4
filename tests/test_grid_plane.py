"""Densities in the plane and in (position, state): sums, probes, closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_close
from scipy.integrate import solve_ivp

import meanfield
from meanfield.attention import Attention
from meanfield.dynamics import AbstractDynamics, Prefix, causal
from meanfield.endings import Status
from meanfield.flows import flow
from meanfield.measures import EveryFace, FixedBox, Grid, Nodes, Points
from meanfield.measures.edges import even_edges, graded_edges
from meanfield.measures.reductions.exact import Separable
from meanfield.scores import Dot, Masked, SquaredDistance
from meanfield.tokens import Tokens

Q = np.array([[1.0, 0.4], [-0.7, 0.3]])
K = np.array([[0.8, -0.2], [0.5, 1.1]])
QUERIES = np.array([[0.0, 0.0], [1.5, -2.0], [-3.0, 2.5], [0.3, 0.4], [-8.0, 9.0]])


def rough_grid() -> Grid:
    """Random masses that are no product, on a skewed box with some empty cells."""
    rng = np.random.default_rng(5)
    edges = [graded_edges(-2, 3, 14), even_edges(-1.5, 2.0, 17)]
    mu = Grid.from_density(edges, np.ones((14, 17)))
    m = np.exp(rng.normal(size=(1, 14, 17)) * 2) * (rng.random((1, 14, 17)) > 0.3)
    m[:, 3] = 0
    axes, origin = jnp.array([[1.2, 0.3], [-0.4, 0.9]]), jnp.array([0.5, -0.2])
    state = mu.state._replace(masses=jnp.asarray(m / m.sum()), axes=axes, origin=origin)
    return mu.replace_coordinates(state)


def separably(mu: Grid) -> Points:
    """Points of a small grid, with the separable sums of a large one."""
    first, second = ((e[1:] + e[:-1]) / 2 for e in mu.edges)
    middles = first, second
    reduction = Separable(mu.state.origin, mu.state.axes, middles)
    return eqx.tree_at(lambda p: p.reduction, mu.points(), reduction)


SCORES = {
    "dot": Dot(Q, K, 0.7),
    "dot with biases": Dot(Q, K, 0.7, query_bias=[0.3, -1.0], key_bias=[0.2, 0.5]),
    "distance": SquaredDistance(Q, K, 1.0),
    "sharp distance": SquaredDistance(Q, K, 0.004),  # lost by plain products
}


@pytest.mark.slow_cases("dot")
@pytest.mark.parametrize("name", SCORES)
def test_separable_sums_match_every_pair(name: str) -> None:
    mu, score = rough_grid(), SCORES[name]
    tokens = mu.points()
    x, y, w = (np.asarray(a) for a in (QUERIES, tokens.tokens.x, tokens.weights))
    S = np.asarray(score(Tokens(jnp.asarray(x)), tokens.tokens))
    top = np.max(np.where(w > 0, S, -np.inf), axis=1, keepdims=True)
    E = np.exp(S - top) * w
    mean = E @ y / E.sum(axis=1, keepdims=True)
    log = np.log(E.sum(axis=1)) + top[:, 0]
    points, at = separably(mu), Tokens(jnp.asarray(x))
    assert_close(points.tilted_mean(score, at), mean, ulps=4000)  # 1e-12
    assert_close(points.log_integral(score, at), log, ulps=4000)


def test_separable_sums_have_the_derivative_of_their_definition() -> None:
    r"""$\nabla_x \log\int e^{x\cdot y}\,d\mu(y)$ is the tilted mean, at many tokens."""
    bump = lambda x: np.exp(-np.sum((x - 0.3) ** 2, axis=1) / 2) / (2 * np.pi)
    points = separably(Grid.from_function([even_edges(-4.3, 4.1, 56)] * 2, bump))
    identity, y = jnp.eye(2), np.asarray(points.tokens.x)
    x = y[::9]
    weights = np.exp(x @ y.T) * np.asarray(points.weights)
    mean = weights @ y / weights.sum(axis=1, keepdims=True)
    total = lambda x: jnp.sum(
        points.log_integral(Dot(identity, identity, 1.0), Tokens(x))
    )
    assert_close(jax.jit(jax.grad(total))(jnp.asarray(x)), mean, ulps=4000)


@pytest.mark.slow
def test_sinkhorn_potentials_come_out_the_same() -> None:
    mu = rough_grid()
    attention = meanfield.attentions["sinkhorn"](Q, K, np.eye(2), epsilon=0.7)
    at = Tokens(jnp.asarray(QUERIES[:4]))
    dense = attention.field(0.0, mu.points())(at)
    assert_close(attention.field(0.0, separably(mu))(at), dense, ulps=1e7)  # tolerance


def plane_normal(cells: int) -> Grid:
    edges = [even_edges(-7, 7, cells), even_edges(-6.5, 6.5, cells)]
    density = lambda x: np.exp(-np.sum(x**2, axis=1) / 2) / (2 * np.pi)
    return Grid.from_function(edges, density)


@pytest.mark.slow
def test_a_plane_gaussian_keeps_to_its_closed_form() -> None:
    A, V = np.array([[-1.0, 0.5], [-0.3, -0.6]]), np.array([[1.0, 0.2], [0.0, 0.8]])

    def rate(_: float, s: np.ndarray) -> np.ndarray:
        half = V @ s.reshape(2, 2) @ A @ s.reshape(2, 2)
        return (half + half.T).ravel()

    exact = solve_ivp(rate, (0, 0.5), np.eye(2).ravel(), rtol=1e-10, atol=1e-12)
    attention = meanfield.attentions["softmax"](A, np.eye(2), V)
    run = flow(attention, plane_normal(64), np.array([0, 0.5]))
    assert run.status is Status.FINISHED
    assert isinstance(run.start.probe, Nodes)  # chosen, and fewer than faces
    assert run.start.probe.count < 64
    assert np.max(np.abs(run.final.covariance - exact.y[:, -1].reshape(2, 2))) < 1e-4
    mass = run.final.mass + run.final.outflow
    assert abs(float(mass) - 1) < 1e-13
    assert float(jnp.min(run.final.masses)) >= 0


def test_velocities_at_nodes_match_those_at_faces() -> None:
    mu = plane_normal(40)
    field = meanfield.attentions["softmax"](Q, K, np.eye(2)).field(0.0, mu)
    probes = EveryFace(), Nodes(12), Nodes(36)
    look = eqx.filter_jit(lambda f: [p.velocities(mu.chart, f) for p in probes])
    exact, coarse, fine = look(field)
    gap = lambda a: max(
        float(jnp.max(jnp.abs(u - v)))
        for u, v in zip(a.faces, exact.faces, strict=True)
    )
    assert gap(fine) < 1e-5
    assert gap(fine) < 20 * float(fine.error)
    assert gap(coarse) < 20 * float(coarse.error)  # and the result reports it


def layers() -> Grid:
    edges, places = even_edges(-3, 3, 24), (np.arange(3) + 0.5) / 3
    x = (edges[1:] + edges[:-1]) / 2
    rho = np.stack([np.exp(-((x - c) ** 2) * 2) for c in (-0.5, 0.2, 0.7)])
    return Grid.from_density(
        [edges], rho * [[1], [2], [3]], position=places, box=FixedBox()
    )


MASKED_DYNAMICS: dict[str, AbstractDynamics] = {
    "masked": Attention(
        Masked(Dot(np.eye(1), np.eye(1)), causal),
        meanfield.attentions["softmax"](np.eye(1), np.eye(1), np.eye(1)).coupling,
        -np.eye(1),
    ),
    "prefix": Prefix(meanfield.attentions["softmax"](np.eye(1), np.eye(1), -np.eye(1))),
}


@pytest.mark.parametrize("name", MASKED_DYNAMICS)
def test_a_layer_sees_itself_and_earlier_ones(name: str) -> None:
    mu = layers()
    cells = mu.points()
    x, s = np.asarray(cells.tokens.x)[:, 0], np.asarray(cells.tokens.position)
    w = np.asarray(cells.weights)
    E = np.exp(np.outer(x, x)) * (s[None] <= s[:, None]) * w
    brute = -(E @ x) / E.sum(axis=1)
    actual = MASKED_DYNAMICS[name].field(0.0, mu)(cells.tokens)
    assert_close(actual[:, 0], brute, ulps=1000)


@pytest.mark.slow
def test_layers_keep_their_masses() -> None:
    mu = layers()
    run = flow(MASKED_DYNAMICS["masked"], mu, np.array([0, 0.3]))
    assert run.status is Status.FINISHED
    before, after = (np.sum(np.asarray(m.masses), axis=1) for m in (mu, run.final))
    assert np.max(np.abs(after - before)) < 1e-14
    assert np.max(np.abs(before - np.array([1, 2, 3]) / 6)) < 1e-3  # but their tails
