"""Runs of Gaussians, in closed form or projected."""

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from typing_extensions import override

from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points

from ._representation import AbstractRepresentation, Frame, representations
from ._start import Start


class GaussianRuns(AbstractRepresentation[Gaussian]):
    """A Gaussian stands for tokens by their moments."""

    name: ClassVar[str] = "gaussian"
    kind: ClassVar[type[AbstractMeasure]] = Gaussian
    noun: ClassVar[str] = "Gaussian"
    place: ClassVar[str] = "mean"
    begins_with: ClassVar[Literal["tokens", "moments", "law"]] = "moments"
    stands_for_tokens: ClassVar[str] = "starts with the moments of the tokens"

    @override
    def of_law(self, start: Start) -> Gaussian:
        return super().of_law(start) if self.draws_tokens(start.init) else start.frame

    @override
    def of_tokens(self, start: Start, points: Points) -> Gaussian:
        return moments(points)

    @override
    def of_frame(self, start: Start, mu: AbstractMeasure) -> Gaussian:
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
    def of_points(self, mu: Points) -> Gaussian:
        return moments(mu)

    @override
    def of_grid(self, mu: Grid) -> Gaussian:
        return moments(mu.points())

    @override
    def of_gaussian(self, mu: Gaussian) -> Gaussian:
        return mu


def moments(points: Points) -> Gaussian:
    """The Gaussian with the moments of `points`; of low rank if they are few."""
    n, d = points.tokens.x.shape
    if n >= d:
        return Gaussian.from_moments(points.mean, points.covariance)
    mass = points.weights / jnp.sum(points.weights)
    centred = jnp.where(mass[:, None] > 0, points.tokens.x - points.mean[None, :], 0)
    return Gaussian(points.mean, (jnp.sqrt(mass)[:, None] * centred).T)


representations.register("gaussian")(GaussianRuns())
