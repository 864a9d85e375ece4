"""Steps in arclength: metastable clusters, their merges, and times beyond e^300."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from conftest import CommandResult
from jaxtyping import Array
from matplotlib.collections import LineCollection
from numpy.random import Generator

import meanfield
from meanfield import Points, Steady, adaptive, attentions, flow, runs
from meanfield.dynamics import stack_trees
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.flows import Isotropic, arclength, ensemble, log_velocities
from meanfield.plotting import Look, panels
from meanfield.spaces import Sphere
from meanfield.spec import parse, parse_axes

Command = Callable[..., CommandResult]
PRECISE = arclength(rtol=1e-13)
# Five tokens on the circle, whose clusters merge one after another.
ANGLES = np.array([0, 0.5, 2, 4, 7]) / 2 * np.log(2000) / np.sqrt(2000)


def on_circle(angles: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def softmax(beta: float, d: int = 2) -> meanfield.attention.Attention:
    return attentions["softmax"](*[np.eye(d)] * 3, epsilon=1 / beta)


def start(x: np.ndarray) -> Points:
    return Points.uniform(x, space=Sphere())


@pytest.mark.parametrize(
    ("beta", "expected"),
    [
        (500, [1.081805934, 5.290324064, 15.504580928]),
        (2000, [7.568093262, 25.676068436, 69.844520287]),
    ],
)
def test_a_staircase_has_its_times(beta: float, expected: list[float]) -> None:
    """Times at which the mean of e^{β(cos − 1)} is .36, .48, .76, to nine digits.

    They were computed apart from this package. The energy is below its level a little
    before these times, and above it a little after.
    """
    log_times = np.repeat(expected, 2) + np.tile([-1e-9, 1e-9], 3)
    run = flow(
        softmax(beta), start(on_circle(ANGLES)), [0.0, *10**log_times], stepping=PRECISE
    )
    x = np.asarray(run.coordinates)[1:]
    cosines = np.clip(np.einsum("tid,tjd->tij", x, x), -1, 1)
    energies = np.exp(beta * (cosines - 1)).mean(axis=(1, 2))
    assert np.array_equal(
        energies > np.repeat([0.36, 0.48, 0.76], 2), [False, True] * 3
    )
    assert str(run.status) == "finished"


def test_merges_say_when_who_and_how_heavy() -> None:
    """The sizes are (2, 1, 1, 1), (3, 1, 1), (3, 2) and (5)."""
    run = flow(softmax(2000), start(on_circle(ANGLES)), [0, 1e80], stepping=PRECISE)
    times, first, second, weights = np.asarray(run.merges).T
    assert np.all(np.diff(times) > 0)
    np.testing.assert_array_equal(first, [0, 0, 3, 0])
    np.testing.assert_array_equal(second, [1, 2, 4, 3])
    np.testing.assert_allclose(weights, [0.4, 0.6, 0.4, 1.0])
    x = np.asarray(run.final.tokens.x)
    assert np.array_equal(x, np.repeat(x[:1], 5, axis=0))


@pytest.mark.parametrize("beta", [10, 20, 300])
def test_two_tokens_meet_after_their_integral(beta: float) -> None:
    """Against the quadrature of dt = dθ / θ' in 30 digits, from π/2 to 0.1."""
    with mpmath.workdps(30):
        # θ' = −2 sin θ e^{β cos θ} / (e^β + e^{β cos θ})
        slowness = lambda a: (
            (1 + mpmath.exp(beta * (1 - mpmath.cos(a)))) / (2 * mpmath.sin(a))
        )
        points = mpmath.linspace(mpmath.mpf("0.1"), mpmath.pi / 2, 40)
        time = float(str(mpmath.quad(slowness, points)))
    run = flow(softmax(beta), start(np.eye(2)), [0.0, time], stepping=PRECISE)
    x = np.asarray(run.final.tokens.x)
    angle = np.arctan2(np.linalg.norm(x[0] - x[1]), np.linalg.norm(x[0] + x[1])) * 2
    rate = 2 * np.sin(0.1) / (1 + np.exp(beta * (1 - np.cos(0.1))))
    assert abs(angle - 0.1) / rate / time < 2e-11


def test_logarithms_of_velocities_are_those_of_the_field(rng: Generator) -> None:
    """For any Q, K, V, in space and on the sphere, for softmax and exp."""
    Q, K, V = rng.normal(size=(3, 3, 3))
    x = rng.normal(size=(8, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for name in ("softmax", "exp"):
        attention = attentions[name](Q, K, V, epsilon=0.5)
        for mu in (Points.weighted(x, rng.uniform(1, 2, 8)), start(x)):
            u, logs = log_velocities(attention, mu)
            v = mu.transport(attention.field(0.0, mu))
            np.testing.assert_allclose(np.exp(logs)[:, None] * u, v, atol=1e-13)


def test_loose_steps_still_find_merges() -> None:
    """Errors of steps stay below the distance of merges, whatever `rtol` is."""
    times = []
    for rtol in (1e-3, 1e-12):
        steps = arclength(rtol=rtol)
        run = flow(softmax(500), start(on_circle(ANGLES)), [0.0, 1e30], stepping=steps)
        assert int(run.n_accepted) < 1000
        times.append(np.asarray(run.merges)[:, 0])
    np.testing.assert_allclose(np.log(times[0]), np.log(times[1]), atol=1e-4)


def test_exp_and_heavy_tokens_agree_with_steps_in_time(rng: Generator) -> None:
    """Weights, another radius and V ≠ I, before the first merge."""
    x = 2 * on_circle(rng.uniform(0, 6, size=9))
    mu = Points.weighted(x, rng.uniform(0.5, 2, 9), space=Sphere(2.0))
    for name in ("softmax", "exp"):
        attention = attentions[name](np.eye(2), np.eye(2), np.diag([1.0, 0.4]))
        ends = [
            flow(attention, mu, [0.0, 0.3], stepping=steps).final.tokens.x
            for steps in (adaptive(rtol=1e-12), PRECISE)
        ]
        np.testing.assert_allclose(ends[0], ends[1], atol=1e-10)


def test_a_merged_flow_goes_on_as_the_whole_would() -> None:
    """Coinciding tokens and tokens of joint weight are the same measure."""
    x = on_circle(np.array([0.0, 1e-3, 1.0]))
    ts = [0.0, 1e3, 2e3, 2.3e3]
    run = flow(softmax(25), start(x), ts, stepping=PRECISE)
    exact = flow(softmax(25), start(x), ts, stepping=adaptive(rtol=1e-12))
    np.testing.assert_allclose(run.coordinates, exact.coordinates, atol=1e-7)
    assert run.merges is not None
    assert len(run.merges) == 1


def test_a_cloud_ends_in_one_cluster(rng: Generator) -> None:
    """Each merge removes one token, at the default tolerance."""
    x = rng.normal(size=(20, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for start_time in (0.0, 5.0):
        ts = start_time + np.append(0, np.logspace(-2, 30, 9))
        run = flow(softmax(15, 3), start(x), ts, stepping=arclength(max_steps=2000))
        assert str(run.status) == "finished"
        assert run.merges is not None
        assert len(run.merges) == 19
        assert np.all(np.ptp(np.asarray(run.final.tokens.x), axis=0) == 0)


def test_runs_store_merges_and_resume_to_the_same_bytes(
    cli: Command, tmp_path: Path
) -> None:
    np.save(tmp_path / "start.npy", on_circle(ANGLES))
    spec = parse(
        {
            "space": "sphere",
            "init": f"@{tmp_path / 'start.npy'}",
            "beta": 500.0,
            "clock": "arclength",
            "t": 1e20,
            "frames": 12,
            "segment": 3,
        }
    )
    runs.execute(spec, out=tmp_path / "whole")

    def interrupt(progress: runs.Progress) -> None:
        if progress.share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.execute(spec, out=tmp_path / "part", report=interrupt)
    runs.resume(tmp_path / "part")
    whole, part = (meanfield.open(tmp_path / name) for name in ("whole", "part"))
    np.testing.assert_array_equal(whole["x"], part["x"])
    np.testing.assert_array_equal(whole["merge_time"], part["merge_time"])
    assert whole["merge_weight"].values.tolist() == pytest.approx([0.4, 0.6, 0.4, 1])
    assert float(whole["time"][1]) == 0.01
    out = cli(
        "simulate",
        "--space",
        "sphere",
        "--n",
        "4",
        "--clock",
        "arclength",
        "--beta",
        "9",
        "--t",
        "1e6",
        "--frames",
        "5",
        "--json",
    ).out
    assert '"merges"' in out


def test_members_of_an_ensemble_are_the_single_flows(rng: Generator) -> None:
    """Tokens of the members merge at other times, and not equally often."""
    starts = [start(on_circle(width * rng.uniform(size=6))) for width in (1, 3, 6)]
    laws, times = [softmax(beta) for beta in (9, 4, 20)], [0.0, 1.0, 50.0, 2000.0]
    stacks = stack_trees(laws), stack_trees(starts)
    together = ensemble(*stacks, times, in_axes=(0, 0), stepping=arclength())
    assert together.merges is not None
    counts = []
    for k, (law, mu) in enumerate(zip(laws, starts, strict=True)):
        alone = flow(law, mu, times, stepping=arclength())
        assert np.array_equal(together.coordinates[k], alone.coordinates)
        assert together.code[k] == alone.code
        merges = np.asarray(together.merges[k])
        assert alone.merges is not None
        counts.append(len(alone.merges))
        assert np.array_equal(merges[: counts[-1]], alone.merges)
        assert np.isnan(merges[counts[-1] :]).all()
    assert len(set(counts)) > 1


def test_cells_of_a_sweep_are_the_single_runs(tmp_path: Path) -> None:
    keys = {"space": "sphere", "n": 6, "d": 2, "clock": "arclength", "t": 1e9}
    keys |= {"stop": "clusters:2", "observe": "order:1"}
    runs.sweep(parse(keys), parse_axes("beta=4|16,seed=0|1"), out=tmp_path / "s")
    rows = runs.sweep_dataset(tmp_path / "s")
    for beta, seed in [(4, 0), (4, 1), (16, 0), (16, 1)]:
        alone = runs.execute(parse({**keys, "beta": beta, "seed": seed}))
        cell = rows.sel(beta=beta, seed=seed)
        # A run ends steps at its frames; tokens meet within 1e-7, to 4e-10 a step.
        assert float(cell["stop_time"]) == pytest.approx(alone.outcome.time, rel=1e-3)
        assert int(cell["ending"]) == alone.outcome.status


def test_the_tree_of_clusters_joins_at_the_times_of_merges(tmp_path: Path) -> None:
    """Beyond 1e100, where squares of coordinates would overflow, but times do not."""
    np.save(tmp_path / "start.npy", on_circle(ANGLES))
    keys = {"space": "sphere", "init": f"@{tmp_path / 'start.npy'}", "beta": 4000.0}
    keys |= {"clock": "arclength", "t": 1e150, "frames": 300}
    runs.execute(parse(keys), out=tmp_path / "run")
    data = meanfield.open(tmp_path / "run")
    last = float(data["merge_time"][-1])
    assert last > 1e130
    axes = panels["merges"](data, Look(link=1e-9)).axes[0]
    segments = np.array(cast(LineCollection, axes.collections[0]).get_segments())
    is_step = segments[:, 0, 1] != segments[:, 1, 1]
    joins = np.log10(segments[is_step, 0, 0].max())
    assert abs(joins - np.log10(last)) < 152 / 298  # the distance of two frames
    assert axes.get_xlim()[1] == pytest.approx(1e150)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"dt": 0.1}, "leave out `dt`"),
        ({"mask": "causal"}, "leave out `mask`"),
        ({"attention": "l2"}, "whose weights are known as logarithms; got `l2`"),
        ({"draws": 2}, "leave out `draws`"),
        ({"clock": None, "merge": 0.1}, "needs `clock = arclength`"),
        ({"merge": 2.0}, "must be less than 1"),
        ({"weights": [0.0, 1, 1, 1]}, "need positive weights"),
    ],
)
def test_wrong_keys_are_refused_in_one_line(
    keys: dict[str, object], message: str, tmp_path: Path
) -> None:
    base = {"space": "sphere", "n": 4, "clock": "arclength", "t": 1.0}
    with pytest.raises(InvalidInputError, match=message) as error:
        runs.execute(parse({**base, **keys}), out=tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_flows_that_could_blow_up_are_refused() -> None:
    """In space exp attention blows up, and steps in arclength would not end."""
    mu = Points.uniform([[1.0], [2.0]])
    one = np.eye(1)
    with pytest.raises(InvalidInputError, match="need a compact space"):
        flow(attentions["exp"](one, one, one), mu, [0.0, 5.0], stepping=arclength())
    with pytest.raises(InvalidInputError, match="needs a compact `space`"):
        parse({"clock": "arclength"})


def test_tokens_that_repel_end_where_steps_shrink(rng: Generator) -> None:
    """V = −I: they approach a simplex and never meet; the ending says that it failed.

    Steps in arclength have no tolerance left at a rest that is not a merge.
    """
    x = rng.normal(size=(4, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    attention = attentions["softmax"](np.eye(3), np.eye(3), -np.eye(3), epsilon=1.0)
    steps = arclength(max_steps=5000)
    run = flow(attention, start(x), [0.0, 1.0, 1e12], stepping=steps)
    assert run.status.is_failure
    assert int(run.n_accepted) < steps.max_steps
    assert float(run.stop_time) < 1e12
    assert int(run.n_saved) == 2
    end = np.asarray(run.final.tokens.x)
    gram = (end @ end.T)[np.triu_indices(4, 1)]
    np.testing.assert_allclose(gram, -1 / 3, atol=1e-6)


def last_square(V: Array, mu: Points) -> Array:
    attention = attentions["softmax"](np.eye(2), np.eye(2), V)
    return jnp.sum(flow(attention, mu, [0.0, 1.0], stepping=arclength()).last ** 2)


def test_what_arclength_does_not_integrate_is_named() -> None:
    mu, one = start(np.eye(2)), np.eye(2)
    cases: tuple[tuple[Any, dict[str, Any], str], ...] = (
        (attentions["sinkhorn"](one, one, one), {}, "one attention, `softmax` or"),
        (softmax(2), {"stop": Steady()}, "no stops"),
        (softmax(2), {"noise": Isotropic(0.1), "key": None}, "noise"),
    )
    for dynamics, options, message in cases:
        with pytest.raises((InvalidInputError, UnsupportedError), match=message):
            flow(dynamics, mu, [0.0, 1.0], stepping=arclength(), **options)
    single = Points.uniform(jnp.eye(2, dtype=jnp.float32), space=Sphere())
    attention = attentions["softmax"](*[jnp.eye(2, dtype=jnp.float32)] * 3)
    with pytest.raises(InvalidInputError, match="outside `jit`, `vmap` and `grad`"):
        jax.grad(lambda V: last_square(V, mu))(jnp.eye(2))
    with pytest.raises(InvalidInputError, match="double precision"):
        flow(attention, single, [0.0, 1.0], stepping=arclength())
