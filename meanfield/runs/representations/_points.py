"""Runs of weighted tokens."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from meanfield.attention.hardmax import has_leaders
from meanfield.clusters import (
    cluster_counts,
    cluster_radii,
    cluster_share,
    cosine_counts,
)
from meanfield.dynamics import AbstractDynamics
from meanfield.flows import AbstractStepping, events, steps_over_jumps
from meanfield.frame_numbers import frame_number, variable_name
from meanfield.measures import AbstractMeasure, Blocked, Points
from meanfield.runs.records._endings import Outcome
from meanfield.spec import GridSpec
from meanfield.tokens import Tokens

from ._representation import AbstractRepresentation, Arrays, Frame, representations
from ._start import Start, Steps
from ._sums import Size

SKETCH_SIZE = 64  # number of tokens in a sketch, enough to check all shapes


class TokenRuns(AbstractRepresentation[Points]):
    """Runs of a cloud of tokens, which have weights and ordered positions."""

    name: ClassVar[str] = "points"
    kind: ClassVar[type[AbstractMeasure]] = Points
    noun: ClassVar[str] = "cloud of tokens"
    space_variable: ClassVar[str] = "x"
    shares_tokens: ClassVar[bool] = True
    start_type: ClassVar[Literal["tokens", "moments", "law"]] = "tokens"
    static_names: ClassVar[tuple[str, ...]] = ("weight", "position")

    @override
    def from_tokens(self, start: Start, points: Points) -> Points:
        return points

    @override
    def static(self, mu: Points) -> Arrays:
        position = np.asarray(mu.tokens.position)
        return {"weight": np.exp(np.asarray(mu.log_weights)), "position": position}

    @override
    def restore(self, start: Start, frame: Frame, static: Frame) -> Points:
        return start.make_points(frame["x"], static["weight"], static["position"])

    @override
    def moments(self, mu: Points) -> tuple[np.ndarray, np.ndarray]:
        # Even for millions of tokens, NumPy computes the moments in less time than JAX
        # needs to compile a program.
        logs = np.asarray(mu.log_weights, np.float64)
        has_weight = ~np.isneginf(logs)
        weights = np.exp(logs - np.max(logs))[has_weight]
        x = np.asarray(mu.tokens.x)[has_weight]
        with np.errstate(over="ignore", invalid="ignore"):  # large tokens may overflow
            mean = np.average(x, axis=0, weights=weights).astype(x.dtype)
            covariance = np.cov(x.T, aweights=weights, ddof=0)
            return mean, np.atleast_2d(covariance).astype(x.dtype)

    @override
    def stepping(
        self, steps: Steps, ts: Float[np.ndarray, " times"], dynamics: AbstractDynamics
    ) -> AbstractStepping:
        fixed_solver = "shark" if steps.noise else "euler"
        is_asked = steps.is_named or not (steps.rtol is None and steps.dt is None)
        is_plain = not (steps.is_named or steps.dt or steps.noise)
        if is_plain and jnp.result_type(float) == jnp.float64 and has_leaders(dynamics):
            return events(rtol=steps.rtol, max_steps=steps.max_steps)
        if not (dynamics.is_continuous or is_asked):
            jumps = steps_over_jumps(ts, fixed_solver)
            steps.check_count(ts, jumps.dt)
            return jumps
        solver = "shark" if steps.noise else steps.solver
        return steps.solver_stepping(ts, solver=solver, fixed_solver=fixed_solver)

    @override
    def full_size(self, start: Start, size: Size) -> Size:
        n = start.keys.n if start.counts_tokens else size.n
        return size._replace(n=n, reduction=start.sums.reduction(n, size.d))

    @override
    def sketch(self, mu: Points) -> Points:
        tokens: Tokens = jax.tree.map(lambda leaf: leaf[:SKETCH_SIZE], mu.tokens)
        zeros = jnp.zeros(tokens.n, tokens.x.dtype)
        return Points(tokens, zeros, Blocked(), space=mu.space)

    @override
    def report(
        self,
        measures: tuple[Points, ...],
        outcomes: tuple[Outcome, ...],
        keys: GridSpec,
        *,
        is_family: bool,
    ) -> dict[str, Any]:
        return {"n": measures[0].tokens.n}

    @override
    def observables(self, first: Points, last: Points) -> dict[str, float]:
        """The number of clusters and the weight of the heaviest one; see `clusters`.

        On a compact space, such as a sphere, clusters are those by cosine.
        """
        weights = np.exp(np.asarray(last.log_weights, float))
        x = np.stack([np.asarray(mu.tokens.x, float) for mu in (first, last)])
        if last.space.is_compact:
            counts, heaviest = cosine_counts(x[1], weights)
        else:
            radii = cluster_radii(x, weights, cluster_share(x[0], weights))
            counts, heaviest = cluster_counts(x[1], weights, radii[1])
        return {"clusters": float(counts), "heaviest_cluster": float(heaviest)}

    @override
    def sample_size(self, mu: Points) -> float:
        r"""Effective sample size, $1/\sum_i w_i^2$."""
        return float(1 / np.sum(np.asarray(mu.probabilities, float) ** 2))

    @override
    def has_positions(self, mu: Points) -> bool:
        return mu.tokens.position is not None


def token_numbers(
    measures: Sequence[AbstractMeasure], names: Sequence[str]
) -> dict[str, np.ndarray]:
    """Numbers of tokens, such as `pairs:0.999`, by variable; an entry per measure."""
    if not names:  # other measures have no such numbers
        return {}
    points = cast(Sequence[Points], measures)
    clouds = [(np.asarray(mu.tokens.x), np.exp(mu.log_weights)) for mu in points]
    return {
        variable_name(name): np.array([frame_number(name)(*cloud) for cloud in clouds])
        for name in names
    }


representations.register("points")(TokenRuns())
