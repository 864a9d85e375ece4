"""Public calls outside `jit` compile once, and never again."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring

from meanfield import Blocked, Heads, Points, Prefix, _programs, attentions, flow, sums
from meanfield._programs import FEW_PROGRAMS, compile_once, forget_programs
from meanfield.dynamics import AbstractDynamics, stack_trees
from meanfield.energies import Interaction
from meanfield.flows import compile_function
from meanfield.measures import AbstractReduction, Cells, Layout
from meanfield.scores import Dot

COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"
compilations: list[float] = []


def note(event: str, duration_secs: float, **_: str | int) -> None:
    if event == COMPILE_EVENT:
        compilations.append(duration_secs)


monitoring.register_event_duration_secs_listener(note)

IDENTITY = np.eye(1)
X = np.linspace(-1, 1, 40)[:, None]
HOW = Blocked(16)
FAST, SLOW = ("softmax", "esp"), pytest.mark.slow
CELLS = Layout(nodes=5, cells=(4,), reach=1.0)


def programs_of_second_call(fn: Callable[[], object]) -> int:
    """The number of programs that a second call compiles."""
    jax.block_until_ready(fn())
    return programs_of_call(fn)


def programs_of_call(fn: Callable[[], object]) -> int:
    """The number of programs that a call compiles."""
    before = len(compilations)
    jax.block_until_ready(fn())
    return len(compilations) - before


@pytest.mark.parametrize("how", [HOW, Cells(layout=CELLS)])
def test_sums_are_compiled_once(how: AbstractReduction) -> None:
    """With other numbers in the arrays, and from another call site."""

    def once() -> jax.Array:
        x = X * np.random.default_rng().uniform(0.5, 1)
        logs = sums.log_sum_exp(x, x, reduction=how)
        return logs + sums.tilted_mean(x, x, x, reduction=how)[:, 0]

    assert programs_of_second_call(once) == 0


def test_derivatives_of_sums_are_compiled_once() -> None:
    total = lambda x: jnp.sum(sums.log_sum_exp(x, x, reduction=HOW))
    assert programs_of_second_call(lambda: jax.grad(total)(jnp.asarray(X))) == 0


@pytest.mark.slow
def test_potentials_are_compiled_once() -> None:
    assert (
        programs_of_second_call(
            lambda: sums.sinkhorn(X, X, reduction=HOW).key_potential
        )
        == 0
    )


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=SLOW) for name in attentions],
)
def test_fields_are_compiled_once(name: str) -> None:
    """Rebuilt and evaluated again, as in a hand-written loop over steps."""
    attention = attentions[name](IDENTITY, IDENTITY, IDENTITY)
    assert programs_of_second_call(lambda: velocities(attention)) == 0


def test_fields_of_heads_and_prefixes_are_compiled_once() -> None:
    softmax = [
        attentions["softmax"](scale * IDENTITY, IDENTITY, IDENTITY)
        for scale in (1.0, 2.0)
    ]
    for moves in (Heads(stack_trees(softmax)), Prefix(softmax[0])):
        assert programs_of_second_call(lambda moves=moves: velocities(moves)) == 0


def test_energies_are_compiled_once() -> None:
    energy = Interaction(Dot(IDENTITY, IDENTITY))
    mu = lambda: Points.uniform(X, reduction=HOW)
    assert programs_of_second_call(lambda: energy(mu())) == 0


@pytest.mark.slow
def test_flows_are_compiled_once() -> None:
    softmax = attentions["softmax"](IDENTITY, IDENTITY, -IDENTITY)
    run = lambda: flow(softmax, Points.uniform(X), [0.0, 0.1]).coordinates
    assert programs_of_second_call(run) == 0


def test_a_flow_of_another_shape_compiles_two_programs() -> None:
    """Its own program, with hundreds of memory maps, and one for equal weights."""
    softmax = attentions["softmax"](IDENTITY, IDENTITY, -IDENTITY)
    run = lambda n: flow(softmax, Points.uniform(X[:n]), [0.0, 0.1]).coordinates
    run(3)
    counts = [programs_of_call(lambda n=n: run(n)) for n in (4, 5)]
    assert counts == [2, 2]


@pytest.mark.parametrize("compiler", [compile_once, compile_function])
def test_programs_of_many_shapes_are_dropped(
    monkeypatch: pytest.MonkeyPatch, compiler: Callable[..., Callable]
) -> None:
    """All of them, once there are several and the process has many memory maps."""
    double = compiler(lambda x: 2 * x)
    shapes = range(1, FEW_PROGRAMS + 2)
    total = lambda: [int(double(np.ones(n)).sum()) for n in shapes]
    doubled_shapes = [2 * n for n in shapes]
    assert total() == doubled_shapes
    assert programs_of_call(total) == 0
    monkeypatch.setattr(_programs, "MANY_MAPS", 0)
    assert programs_of_call(total) == 0  # no shape is new
    assert double(np.ones(99)).sum() == 198
    assert programs_of_call(total) >= len(doubled_shapes)


def test_programs_are_kept_while_memory_maps_are_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = jax.jit(lambda x: x + 1)
    call = lambda: program(np.ones(3))
    call()
    monkeypatch.setattr(_programs, "MANY_MAPS", 10**9)
    forget_programs()
    assert programs_of_call(call) == 0
    monkeypatch.setattr(_programs, "MANY_MAPS", 0)
    forget_programs()
    assert programs_of_call(call) == 1


def velocities(moves: AbstractDynamics) -> jax.Array:
    mu = Points.uniform(X, position=np.arange(40) / 40, reduction=HOW)
    return moves.field(0.0, mu)(mu.tokens)


def test_calls_inside_a_program_are_traced_into_it() -> None:
    """The body is traced each time, so that its side effects happen."""
    calls: list[None] = []
    compiled_fn = compile_once(lambda x: (calls.append(None), 2 * x)[1])
    assert jax.jit(lambda x: compiled_fn(x) + compiled_fn(x))(1.0) == 4.0
    assert len(calls) == 2
    assert [float(compiled_fn(jnp.asarray(3.0))) for _ in range(2)] == [6.0, 6.0]
    assert len(calls) == 3
