"""About how long a run will take: counts of pairs and steps, times measured rates."""

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
from meanfield.measures import Blocked, Cells, Chebyshev, Dense, typical
from meanfield.runs.representations import Size
from meanfield.runs.setup._context import keys_seen, most_keys
from meanfield.runs.setup._setup import Setup

from ._model import BLOCKS, PRODUCTS, READING, Network, steps_of_model


class Rates(NamedTuple):
    """Of one core: operations in products of matrices, and exponentials, a second."""

    products: float
    exponentials: float


# Of an AMD EPYC with 512-bit vectors, as `docs/speed.md` has them for two cores.
RATES = {"float64": Rates(9.5e10, 1.9e9), "float32": Rates(2.3e11, 7e9)}
COMPILING = 10.0  # seconds of a first run, typically; 1 where the cache has its program
PASSES = 4  # of Sinkhorn's iteration that a velocity typically takes
NODES = 48  # along an axis, of interpolated sums, typically
ENOUGH = 4096  # nodes of a projected Gaussian
PROBED = 64  # along an axis of a plane grid, where velocities are asked for
STAGES = {
    diffrax.Euler: 1,
    diffrax.Heun: 2,
    diffrax.ShARK: 2,
    diffrax.Dopri8: 13,
    diffrax.Kvaerno5: 60,
}
USUAL_STAGES = 6  # of Runge-Kutta methods of fifth order
GRID_STAGES = 3
# Seconds of one core for a token and a slice whose ranks are matched: 0.3 for 100 000
# tokens on 8 slices in dimension 8, and 4.2 for a million.
SORTED = 5e-7
SOFT_SUMS = 3  # over pairs, of a slice whose ranks are shared: two sorts, their plan
OVERHEAD = 2e-5  # seconds of a velocity besides its sums
TOGETHER = 100  # members of a family that share it, stepping side by side
ADAPTED = 30.0  # steps to a relative error of 1e-6 that a flow typically takes
BEGINNING = 4  # steps of a segment, at least: each begins with short ones
LAYER = 10  # steps of a layer
COMMIT = 0.02  # seconds of a segment besides its steps
MOST = 2.0**53  # steps that are counted: no run gets so far, and floats go beyond
CELLWISE = 0.5  # steps of a grid for a unit of time and a cell along its axis


class Duration(NamedTuple):
    """An estimate, right to a factor of about four where it was compared.

    Attributes:
        velocity: seconds of one velocity of one member.
        stages: velocities in a step.
        steps: of a member; those that are fixed, or else a typical number.
        known: whether the number of steps is known beforehand.
        members: flows, one after the other.
        between: seconds beside the steps: of segments, and of a model that is read.

    Examples:
        >>> from meanfield import runs, spec
        >>> time = runs.foreseen(spec.parse({"n": 1000, "A": -1.0})).duration
        >>> time.members, time.known
        (1, False)
    """

    velocity: float
    stages: int
    steps: int
    known: bool
    members: int
    between: float

    @property
    def step(self) -> float:
        """Seconds of a step of a member."""
        return self.velocity * self.stages

    @property
    def seconds(self) -> float:
        """Seconds of computing in all, compilation left out."""
        return self.step * self.steps * self.members + self.between


def duration(
    setup: Setup, size: Size, *, dynamics: AbstractDynamics, members: int
) -> Duration:
    """About how long the steps of a run take on this machine's cores.

    Velocities are counted by what they sum over; energies that are observed, files and
    progress are not. Adaptive steps cannot be counted beforehand: a typical number
    stands for them, of flows whose clouds change by a few times their size.

    Args:
        setup: of the run, in full.
        size: of its measure.
        dynamics: what moves its first member.
        members: of its family.
    """
    spec, stepping = setup.spec, setup.stepping(dynamics)
    stages = STAGES.get(type(stepping.solver), USUAL_STAGES)
    if size.cells:
        stages = GRID_STAGES
    length = stepping.dt if isinstance(stepping, Fixed) else None
    steps = _typical(setup, size)
    if length is not None:
        steps = max(1, round(min(_span(setup) / length, MOST)))
    overhead = OVERHEAD / (1 if spec.starts is None else TOGETHER)
    work = _work(setup, size) + _matching(setup, dynamics, size)
    velocity = overhead + work / (os.cpu_count() or 1)
    apart = members if spec.starts is None else 1
    between = COMMIT * apart * _segments(setup)
    between += 0 if spec.model is None else READING
    if spec.forward:
        layers = len(setup.ts) - 1
        between += BLOCKS * layers * _network(setup).seconds(size.n, setup.dtype)
    known = length is not None or spec.forward
    return Duration(velocity, stages, steps, known, members, between)


def _network(setup: Setup) -> Network:
    """The network of a run that has one."""
    return Network.of(str(setup.spec.model), setup.spec.model_heads)


def in_words(time: Duration) -> str:
    """An estimate for people, and what it is made of.

    Examples:
        >>> from meanfield import runs, spec
        >>> time = runs.foreseen(spec.parse({"n": 1000, "A": -1.0})).duration
        >>> "velocities" in runs.in_words(time)
        True
    """
    if not time.steps:
        return f"about {_readable(time.seconds)}, of reading and one pass"
    steps = f"{time.steps} steps" if time.steps < MOST else f"over {MOST:.0e} steps"
    count = steps if time.known else f"typically {steps}"
    share = f" for each of {time.members}" if time.members > 1 else ""
    doubt = "" if time.known else "; how many it takes, only the run can tell"
    most = ", which is most of the time" if time.seconds < COMPILING else ""
    return (
        f"about {_readable(time.seconds)}, estimated for {os.cpu_count()} cores: "
        f"{count}{share} of {_readable(time.step)}, velocities {time.stages} times a "
        f"step{doubt}; and some {COMPILING:.0f} s of compiling, once{most}"
    )


def _readable(seconds: float) -> str:
    """A time for people, as roughly as it is known: `3 min`."""
    units = {"days": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3}
    unit, size = next((u for u in units.items() if seconds >= u[1]), ("ms", 1e-3))
    return f"{float(f'{seconds / size:.2g}'):g} {unit}"


def _span(setup: Setup) -> float:
    return float(setup.ts[-1]) - float(setup.ts[0])


def _segments(setup: Setup) -> int:
    return -(-(len(setup.ts) - 1) // setup.steps.segment)


def _typical(setup: Setup, size: Size) -> int:
    spec, span, landings = setup.spec, _span(setup), len(setup.ts) - 1
    if spec.forward:
        return 0
    if size.cells:
        return max(_whole(CELLWISE * span * _along(size)), landings)
    order = 8 if spec.solver == "dopri8" else 5
    rtol = spec.rtol or float(10 ** (-9.4 if spec.precision == "double" else -4.1))
    steps = _whole(ADAPTED * (1e-6 / rtol) ** (1 / order))
    if spec.model:
        steps = _whole(steps_of_model(_whole(span), rtol))
    if spec.solver != "dopri8" and not spec.noise:
        landings = 0
    least = BEGINNING * _segments(setup), LAYER * len(spec.layers)
    return max(steps, *least, landings)


def _whole(count: float) -> int:
    return math.ceil(min(count, MOST))


def _work(setup: Setup, size: Size) -> float:
    """Seconds of one core for a velocity, but for what matches along slices."""
    spec, d, name, unit = setup.spec, size.d, setup.dtype.name, jnp.ones((1, 1))
    rates = RATES[name]
    parts = (spec, *spec.terms)
    heads = [part.heads for part in parts]
    if spec.model is not None:
        heads[0] = _network(setup).n_heads
        rates = rates._replace(products=PRODUCTS[name])
    if size.how is None and not spec.projected:
        solution = 40 * d**3 / rates.products  # roots and solves of d × d matrices
        return sum(heads) * solution
    work = 8 * size.n * d**2 / rates.products
    if spec.model is not None:
        work = _network(setup).seconds(size.n, setup.dtype)
    for count, part, context in zip(heads, parts, setup.contexts, strict=True):
        coupling = attentions[part.attention](unit, unit, unit).coupling
        if not isinstance(coupling, HardSlices | AbstractSoftSlices):
            half_steps = 2 * (part.iterations or PASSES)
            passes = half_steps if isinstance(coupling, Sinkhorn) else 1
            by_prefix = part.mask is not None and not isinstance(coupling, Softmax)
            passes *= size.n or 1 if by_prefix else 1
            keys = None if context is None else keys_seen(context)
            if isinstance(coupling, Linear | LinearExpansion) and not by_prefix:
                keys = d + 2  # features, which keys are summed to once
            work += count * passes * _sums(size, keys, rates)
    return work


def _sums(size: Size, keys: int | None, rates: Rates) -> float:
    """Seconds of one core for the sums over keys, if they are others; else over all."""
    d = size.d
    pair = (4 * d + 2) / rates.products + 1 / rates.exponentials
    n = float(size.n or size.cells or ENOUGH)
    if keys is not None:
        return n * keys * pair
    if isinstance(size.how, Cells):
        layout = typical(size.n, d, error=size.how.tolerance)
        return n**2 * pair if layout is None else 2 * layout.seconds(2 * size.n, d + 1)
    if isinstance(size.how, Chebyshev):
        around = 2 * (2 * d + 1) * NODES**d / rates.products
        return size.n * (around + 8 * d * NODES / rates.exponentials)
    if size.how is not None and not isinstance(size.how, Blocked | Dense):
        along, across = 2 * _along(size) / rates.exponentials, 6 * size.cells
        return PROBED**2 * (along + across / rates.products)
    return n**2 * pair


def _matching(setup: Setup, dynamics: AbstractDynamics, size: Size) -> float:
    """Seconds of one core for what a velocity matches along slices."""
    if size.how is None and not setup.spec.projected:
        return 0.0
    n = size.n or size.cells or ENOUGH
    hard = _slices(HardSlices, dynamics, size.n or 1)
    soft = _slices(AbstractSoftSlices, dynamics, size.n or 1)
    # Sums along slices are exact: of as many keys as there are.
    pairs = _sums(size, max(n, most_keys(setup.contexts)), RATES[setup.dtype.name])
    return SORTED * (hard + soft) * n + SOFT_SUMS * soft * pairs


def _slices(
    kind: type[HardSlices | AbstractSoftSlices], dynamics: AbstractDynamics, n: int
) -> int:
    """Along how many slices a velocity matches: of one layer, and of each prefix.

    What slices cost is found out by matching along them once more.
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


def _along(size: Size) -> float:
    return size.cells ** (1 / size.d)
