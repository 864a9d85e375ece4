"""From a spec to a dynamics, an initial measure and times."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield import models
from meanfield.attention import attentions
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InputFileError, InvalidInputError, PrecisionError
from meanfield.flows import (
    AbstractStepping,
    AbstractStop,
    BlowUp,
    Steady,
    adaptive,
    fixed,
)
from meanfield.measures import (
    AbstractMeasure,
    AbstractReduction,
    Blocked,
    Dense,
    Gaussian,
    Points,
)
from meanfield.measures.sampling import clouds
from meanfield.spec import RunSpec

from ._attention import dynamics
from ._parameters import Draw, columns, matrix, read_array, vector
from ._source import moments, source_measure

DENSE_UP_TO = 512  # tokens: beyond, fresh n × n buffers cost more than a scan
BLOCK = 512


@dataclass(frozen=True)
class Member:
    """One flow: what moves, and by what."""

    dynamics: AbstractDynamics
    measure: AbstractMeasure


def dimension(spec: RunSpec) -> int:
    """The dimension that the keys fix; a number alone is a 1 × 1 matrix.

    Raises:
        InvalidInputError: if two keys disagree.
    """
    found = {} if spec.d is None else {"d": spec.d}
    for name in ("A", "Q", "K", "V", "cov", "mean"):
        size = columns(getattr(spec, name))
        if size is not None:
            found[name] = size
    if spec.init.startswith("@"):
        found["init"] = _tokens_from(spec.init[1:]).shape[1]
    if len(set(found.values())) > 1:
        listing = ", ".join(f"{name}: {size}" for name, size in found.items())
        raise InvalidInputError(f"The keys disagree on the dimension ({listing}).")
    return next(iter(found.values()), 1)


def member(spec: RunSpec, index: int = 0) -> Member:
    """The flow of draw `index` of a spec.

    Raises:
        InvalidInputError: if keys do not fit together.
        InputFileError: if a file it names cannot be read.
    """
    if spec.model is not None:
        built = _model_member(spec)
    else:
        draw = Draw(spec.seed, index)
        d = dimension(spec)
        built = Member(dynamics(spec, d, draw), _start(spec, d, draw))
    if spec.source is not None:
        built = Member(built.dynamics, source_measure(spec, reduction))
    return typed(spec, built)


def dtype_of(spec: RunSpec) -> jnp.dtype:
    """The floating-point format of a spec.

    Raises:
        PrecisionError: if it is double while JAX rounds to single.
    """
    if spec.precision == "single":
        return jnp.dtype("float32")
    if not jax.config.read("jax_enable_x64"):
        raise PrecisionError(
            "This run is in double precision and JAX is set to single; write "
            '`jax.config.update("jax_enable_x64", True)` before making any array.'
        )
    return jnp.dtype("float64")


def typed(spec: RunSpec, built: Member) -> Member:
    """A member with every float in the format of its spec."""
    dtype = dtype_of(spec)
    cast = lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf
    return Member(
        jax.tree.map(cast, built.dynamics), jax.tree.map(cast, built.measure)
    )


def with_frame(mu: AbstractMeasure, frame: Mapping[str, np.ndarray]) -> AbstractMeasure:
    """`mu` moved to a stored frame, bit for bit."""
    if isinstance(mu, Gaussian):
        return mu.at((jnp.asarray(frame["mean"]), jnp.asarray(frame["factor"])))
    return mu.at(jnp.asarray(frame["x"]))


def times(spec: RunSpec) -> Float[np.ndarray, " times"]:
    """The times of the frames; with a fixed step they fall on its steps."""
    if spec.times is not None:
        return np.asarray(spec.times, float)
    start = 0.0 if spec.at is None else spec.at
    end = _final_time(spec)
    if end <= start:
        raise InvalidInputError(f"`t` must pass the start {start:g}; got {end:g}.")
    if spec.dt is None:
        return np.linspace(start, end, spec.frames)
    steps = max(1, round((end - start) / spec.dt))
    stride = max(1, -(-steps // (spec.frames - 1)))
    kept = np.unique(np.append(np.arange(0, steps + 1, stride), steps))
    return start + spec.dt * kept


def stepping(spec: RunSpec) -> AbstractStepping:
    """The stepping of a spec."""
    if spec.dt is not None:
        return fixed(spec.dt, spec.solver if "solver" in spec.model_fields_set else "euler")
    return adaptive(spec.solver, rtol=spec.rtol, max_steps=spec.max_steps)


def stops(spec: RunSpec) -> tuple[AbstractStop, ...]:
    """When a spec lets its flow end early."""
    steady = () if spec.steady is None else (Steady(spec.steady),)
    return steady if spec.bound is None else (*steady, BlowUp(spec.bound))


def reduction(spec: RunSpec, n: int) -> AbstractReduction:
    """How sums over `n` tokens are executed.

    Raises:
        InvalidInputError: if `reduction` is none of `auto`, `dense`, `blocked[:SIZE]`.
    """
    kind, _, size = spec.reduction.partition(":")
    if kind == "auto" and not size:
        return Dense() if n <= DENSE_UP_TO else Blocked(BLOCK)
    if kind == "dense" and not size:
        return Dense()
    if kind == "blocked" and (not size or (size.isdigit() and int(size) > 0)):
        return Blocked(int(size) if size else BLOCK)
    raise InvalidInputError(
        "`reduction` must be `auto`, `dense`, `blocked` or `blocked:SIZE`; got "
        f"`{spec.reduction}`."
    )


def _final_time(spec: RunSpec) -> float:
    if spec.model is None or "t" in spec.model_fields_set:
        return spec.t
    if spec.model_layers is not None:
        return float(len(spec.model_layers))
    return float(models.read(models.load(spec.model)).sizes.n_layers)


def _start(spec: RunSpec, d: int, draw: Draw) -> AbstractMeasure:
    frame = Gaussian.from_moments(
        vector("mean", spec.mean, d), matrix("cov", spec.cov, (d, d), draw)
    )
    if spec.measure == "gaussian" and spec.init == "gaussian":
        return frame
    if spec.init.startswith("@"):
        x = _tokens_from(spec.init[1:])
        if {"mean", "cov"} & spec.model_fields_set:
            raise InvalidInputError("Tokens from a file keep their `mean` and `cov`.")
    else:
        cloud = clouds[spec.init](spec.n, d, key=draw.key("init"))
        x = frame.mean + cloud @ frame.factor.T
    return _measure(spec, jnp.asarray(x))


def _measure(spec: RunSpec, x: Array) -> AbstractMeasure:
    """Tokens as points, or as the Gaussian of their moments."""
    n = x.shape[0]
    position = jnp.arange(1, n + 1) / n
    if spec.weights is None:
        points = Points.uniform(x, position=position, reduction=reduction(spec, n))
    else:
        weights = vector("weights", spec.weights, n)
        points = Points.weighted(
            x, weights, position=position, reduction=reduction(spec, n)
        )
    return points if spec.measure == "points" else moments(points)


def _model_member(spec: RunSpec) -> Member:
    checkpoint = models.load(str(spec.model))
    text = str(spec.text)
    words = _read_text(text[1:]) if text.startswith("@") else text
    dtype = dtype_of(spec)
    one = jnp.ones((1, 1), dtype)
    layers = models.layers(
        checkpoint,
        layers=spec.model_layers,
        heads=spec.model_heads,
        coupling=attentions[spec.attention](one, one, one).coupling,
        dtype=dtype,
    )
    tokens = models.embed(checkpoint, words, dtype=dtype).tokens
    return Member(layers, _measure(spec, tokens.x))


def _tokens_from(path: str) -> np.ndarray:
    x = read_array(path)
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2:
        raise InvalidInputError(f"`{path}` must hold a matrix; got shape {x.shape}.")
    return x


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputFileError(f"There is no file `{path}`.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(f"`{path}` is no readable text: {error}") from None
