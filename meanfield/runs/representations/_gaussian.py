"""Runs of Gaussians, in closed form or projected."""

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from typing_extensions import override

from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points

from ._representation import AbstractRepresentation, Frame, representations
from ._start import Start


class GaussianRuns(AbstractRepresentation[Gaussian]):
    """Runs of a Gaussian, which starts with the moments of tokens or a law."""

    name: ClassVar[str] = "gaussian"
    kind: ClassVar[type[AbstractMeasure]] = Gaussian
    noun: ClassVar[str] = "Gaussian"
    space_variable: ClassVar[str] = "mean"
    start_type: ClassVar[Literal["tokens", "moments", "law"]] = "moments"
    tokens_note: ClassVar[str] = "starts with the moments of the tokens"

    @override
    def from_law(self, start: Start) -> Gaussian:
        return super().from_law(start) if self.draws_tokens(start.init) else start.frame

    @override
    def from_tokens(self, start: Start, points: Points) -> Gaussian:
        return moments(points)

    @override
    def from_frame(self, start: Start, mu: AbstractMeasure) -> Gaussian:
        return _Moments()(mu)

    @override
    def draws_tokens(self, init: str) -> bool:
        return init != "gaussian"

    @override
    def restore(self, start: Start, frame: Frame, static: Frame) -> Gaussian:
        return Gaussian(*jax.device_put((frame["mean"], frame["factor"])))


class _Moments(AbstractReader[Gaussian]):
    """The Gaussian with the moments of a measure."""

    @override
    def read_points(self, mu: Points) -> Gaussian:
        return moments(mu)

    @override
    def read_grid(self, mu: Grid) -> Gaussian:
        return moments(mu.points())

    @override
    def read_gaussian(self, mu: Gaussian) -> Gaussian:
        return mu


def moments(points: Points) -> Gaussian:
    """The Gaussian with the moments of `points`; for n < d its factor is d × n."""
    n, d = points.tokens.x.shape
    if n >= d:
        return Gaussian.from_moments(points.mean, points.covariance)
    mass = points.weights / jnp.sum(points.weights)
    residuals = jnp.where(mass[:, None] > 0, points.tokens.x - points.mean[None, :], 0)
    return Gaussian(points.mean, (jnp.sqrt(mass)[:, None] * residuals).T)


representations.register("gaussian")(GaussianRuns())
