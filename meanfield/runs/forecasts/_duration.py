"""Estimated duration of a run: operation counts divided by measured rates."""

import math
import os
from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from meanfield.attention import (
    AbstractSoftSlices,
    HardSlices,
    Linear,
    LinearExpansion,
    Sinkhorn,
    Softmax,
    attentions,
)
from meanfield.dynamics import AbstractDynamics, Interpolated, Layers, Prefix
from meanfield.flows.stepping import Fixed
from meanfield.measures import Blocked, Cells, Chebyshev, Dense, typical_layout
from meanfield.runs.representations import Size
from meanfield.runs.setup._context import max_context_keys, n_context_keys
from meanfield.runs.setup._setup import Setup

from ._model import BLOCKS, PRODUCTS, READ_SECONDS, Network, steps_of_model


class Rates(NamedTuple):
    """Numbers of matrix operations and exponentials that a core computes per second."""

    products: float
    exponentials: float


# These rates are for an AMD EPYC with 512-bit vectors; see also `docs/speed.md`.
RATES = {"float64": Rates(9.5e10, 1.9e9), "float32": Rates(2.3e11, 7e9)}
COMPILE_SECONDS = 10.0  # in a first run; about 1 s if the program is cached
PASSES = 4  # typical number of Sinkhorn iterations to compute a velocity
NODES = 48  # typical number of interpolation nodes along an axis
PROJECTION_NODES = 4096  # number of quadrature nodes for a projected Gaussian
PROBES = 64  # velocities on a planar grid are computed at 64 × 64 points
STAGES = {
    diffrax.Euler: 1,
    diffrax.Heun: 2,
    diffrax.ShARK: 2,
    diffrax.Dopri8: 13,
    diffrax.Kvaerno5: 60,
}
USUAL_STAGES = 6  # velocities per step of a fifth-order Runge–Kutta method
GRID_STAGES = 3
# Core seconds that it takes to match ranks, per token and slice. 100 000 tokens in
# dimension 8 took 0.3 s on 8 slices, and a million took 4.2 s.
SORT_SECONDS = 5e-7
SOFT_SUMS = 3  # sums over pairs per soft slice, for two soft sorts and their plan
OVERHEAD = 2e-5  # seconds that a velocity takes in addition to its sums
BATCH_SIZE = 100  # number of members that share the overhead of a batch
ADAPTIVE_STEPS = 30.0  # typical number of steps at a relative tolerance of 1e-6
SEGMENT_STEPS = 4  # fewest steps per segment, since each begins with short steps
LAYER = 10  # fewest steps per layer of a flow
COMMIT = 0.02  # seconds that a segment takes in addition to its steps
MAX_STEPS = 2.0**53  # largest estimate; a float holds all integers up to this one
STEPS_PER_CELL = 0.5  # steps on a grid per unit of time and cell along an axis


class Duration(NamedTuple):
    """Estimated duration of a run; in tests, correct within a factor of about four.

    Attributes:
        velocity: seconds to compute the velocity of one member once.
        stages: the number of velocities computed in a step.
        steps: the number of steps of a member; a typical number for adaptive steps.
        has_fixed_steps: whether the number of steps is known in advance.
        members: the number of flows.
        extra_seconds: further seconds, for segments and for reading a model.

    Examples:
        >>> from meanfield import runs, spec
        >>> time = runs.forecast(spec.parse({"n": 1000, "A": -1.0})).duration
        >>> time.members, time.has_fixed_steps
        (1, False)
    """

    velocity: float
    stages: int
    steps: int
    has_fixed_steps: bool
    members: int
    extra_seconds: float

    @property
    def step(self) -> float:
        """Seconds for one step of a member."""
        return self.velocity * self.stages

    @property
    def seconds(self) -> float:
        """Seconds of the whole run, without compilation."""
        return self.step * self.steps * self.members + self.extra_seconds


def duration(
    setup: Setup, size: Size, *, dynamics: AbstractDynamics, members: int
) -> Duration:
    """The estimated duration of a run on this machine's cores.

    The estimate counts the sums in velocities, but not observed energies, files or
    progress reports. The number of adaptive steps is not known in advance; the estimate
    assumes a number typical of clouds that change by a few times their size.

    Args:
        setup: the resolved run.
        size: the full size of its measure.
        dynamics: the dynamics of its first member.
        members: the number of its members.
    """
    spec, stepping = setup.spec, setup.stepping(dynamics)
    stages = STAGES.get(type(stepping.solver), USUAL_STAGES)
    if size.cells:
        stages = GRID_STAGES
    length = stepping.dt if isinstance(stepping, Fixed) else None
    steps = _typical_steps(setup, size)
    if length is not None:
        steps = max(1, round(min(_span(setup) / length, MAX_STEPS)))
    overhead = OVERHEAD / (1 if spec.starts is None else BATCH_SIZE)
    work = _work(setup, size) + _matching(setup, dynamics, size)
    velocity = overhead + work / (os.cpu_count() or 1)
    n_batches = members if spec.starts is None else 1
    extra_seconds = COMMIT * n_batches * _segments(setup)
    extra_seconds += 0 if spec.model is None else READ_SECONDS
    if spec.forward:
        layers = len(setup.ts) - 1
        extra_seconds += BLOCKS * layers * _network(setup).seconds(size.n, setup.dtype)
    has_fixed_steps = length is not None or spec.forward
    return Duration(velocity, stages, steps, has_fixed_steps, members, extra_seconds)


def _network(setup: Setup) -> Network:
    """The network whose heads move the tokens of a run."""
    return Network.from_model(str(setup.spec.model), setup.spec.model_heads)


def describe_duration(time: Duration) -> str:
    """An estimated duration in words, with the numbers that it is computed from.

    Examples:
        >>> from meanfield import runs, spec
        >>> time = runs.forecast(spec.parse({"n": 1000, "A": -1.0})).duration
        >>> "velocities" in runs.describe_duration(time)
        True
    """
    if not time.steps:
        return f"about {_format_seconds(time.seconds)} to read the model and apply it"
    count, steps_note, compile_note = f"{time.steps} steps", "", ""
    if time.steps >= MAX_STEPS:
        count = f"over {MAX_STEPS:.0e} steps"
    if not time.has_fixed_steps:
        count = f"typically {count}"
        steps_note = "; the actual number is known only afterwards"
    share = f" for each of {time.members}" if time.members > 1 else ""
    if time.seconds < COMPILE_SECONDS:
        compile_note = ", which is most of the time"
    return (
        f"about {_format_seconds(time.seconds)}, estimated for {os.cpu_count()} cores: "
        f"{count}{share} of {_format_seconds(time.step)}, each {time.stages} velocities"
        f"{steps_note}; plus about {COMPILE_SECONDS:.0f} s of compiling{compile_note}"
    )


def _format_seconds(seconds: float) -> str:
    """A rounded duration with its unit, such as `3 min`."""
    units = {"days": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3}
    unit, size = next((u for u in units.items() if seconds >= u[1]), ("ms", 1e-3))
    return f"{float(f'{seconds / size:.2g}'):g} {unit}"


def _span(setup: Setup) -> float:
    return float(setup.ts[-1]) - float(setup.ts[0])


def _segments(setup: Setup) -> int:
    return -(-(len(setup.ts) - 1) // setup.steps.segment)


def _typical_steps(setup: Setup, size: Size) -> int:
    spec, span, landings = setup.spec, _span(setup), len(setup.ts) - 1
    if spec.forward:
        return 0
    if size.cells:
        return max(_whole(STEPS_PER_CELL * span * _cells_per_axis(size)), landings)
    order = 8 if spec.solver == "dopri8" else 5
    rtol = spec.rtol or float(10 ** (-9.4 if spec.precision == "double" else -4.1))
    steps = _whole(ADAPTIVE_STEPS * (1e-6 / rtol) ** (1 / order))
    if spec.model:
        steps = _whole(steps_of_model(_whole(span), rtol))
    if spec.solver != "dopri8" and not spec.noise:
        landings = 0
    least = SEGMENT_STEPS * _segments(setup), LAYER * len(spec.layers)
    return max(steps, *least, landings)


def _whole(count: float) -> int:
    return math.ceil(min(count, MAX_STEPS))


def _work(setup: Setup, size: Size) -> float:
    """Core seconds to compute one velocity, without matching along slices."""
    spec, d, name, unit = setup.spec, size.d, setup.dtype.name, jnp.ones((1, 1))
    rates = RATES[name]
    parts = (spec, *spec.terms)
    heads = [part.heads for part in parts]
    if spec.model is not None:
        heads[0] = _network(setup).n_heads
        rates = rates._replace(products=PRODUCTS[name])
    if size.reduction is None and not spec.projected:
        solution = 40 * d**3 / rates.products  # matrix roots and linear systems
        return sum(heads) * solution
    work = 8 * size.n * d**2 / rates.products
    if spec.model is not None:
        work = _network(setup).seconds(size.n, setup.dtype)
    for count, part, context in zip(heads, parts, setup.contexts, strict=True):
        coupling = attentions[part.attention](unit, unit, unit).coupling
        if not isinstance(coupling, HardSlices | AbstractSoftSlices):
            half_steps = 2 * (part.iterations or PASSES)
            passes = half_steps if isinstance(coupling, Sinkhorn) else 1
            is_prefixed = part.mask is not None and not isinstance(coupling, Softmax)
            passes *= size.n or 1 if is_prefixed else 1
            keys = None if context is None else n_context_keys(context)
            if isinstance(coupling, Linear | LinearExpansion) and not is_prefixed:
                keys = d + 2  # the number of features that keys are summed into
            work += count * passes * _sums(size, keys, rates)
    return work


def _sums(size: Size, keys: int | None, rates: Rates) -> float:
    """Core seconds for sums over `keys` keys; `None` stands for all keys."""
    d = size.d
    pair = (4 * d + 2) / rates.products + 1 / rates.exponentials
    n = float(size.n or size.cells or PROJECTION_NODES)
    if keys is not None:
        return n * keys * pair
    if isinstance(size.reduction, Cells):
        layout = typical_layout(size.n, d, error=size.reduction.tolerance)
        return n**2 * pair if layout is None else 2 * layout.seconds(2 * size.n, d + 1)
    if isinstance(size.reduction, Chebyshev):
        products = 2 * (2 * d + 1) * NODES**d / rates.products
        return size.n * (products + 8 * d * NODES / rates.exponentials)
    if size.reduction is not None and not isinstance(size.reduction, Blocked | Dense):
        axis_seconds = 2 * _cells_per_axis(size) / rates.exponentials
        return PROBES**2 * (axis_seconds + 6 * size.cells / rates.products)
    return n**2 * pair


def _matching(setup: Setup, dynamics: AbstractDynamics, size: Size) -> float:
    """Core seconds of one velocity that are spent on matching along slices."""
    if size.reduction is None and not setup.spec.projected:
        return 0.0
    n = size.n or size.cells or PROJECTION_NODES
    hard = _slices(HardSlices, dynamics, size.n or 1)
    soft = _slices(AbstractSoftSlices, dynamics, size.n or 1)
    # Sums of soft slices run over all pairs and are never interpolated.
    n_keys = max(n, max_context_keys(setup.contexts))
    pairs = _sums(size, n_keys, RATES[setup.dtype.name])
    return SORT_SECONDS * (hard + soft) * n + SOFT_SUMS * soft * pairs


def _slices(
    kind: type[HardSlices | AbstractSoftSlices], dynamics: AbstractDynamics, n: int
) -> int:
    """The number of slices along which one layer matches tokens for one velocity.

    All prefixes of a mask are counted. A coupling with `tau` counts twice.
    """
    kinds = (kind, Layers, Interpolated, Prefix)
    count = 0
    for part in jax.tree.leaves(dynamics, is_leaf=lambda p: isinstance(p, kinds)):
        if isinstance(part, kind):
            passes = 1 if part.tau is None else 2
            count += passes * math.prod(part.directions.shape[:-1])
        if isinstance(part, Layers | Interpolated):
            first = eqx.filter_eval_shape(_first, part.stack)
            count += _slices(kind, first, n)
        if isinstance(part, Prefix):
            count += n * _slices(kind, part.dynamics, n)
    return count


def _first(stack: AbstractDynamics) -> AbstractDynamics:
    return jax.tree.map(lambda leaf: leaf[0], stack)


def _cells_per_axis(size: Size) -> float:
    return size.cells ** (1 / size.d)
