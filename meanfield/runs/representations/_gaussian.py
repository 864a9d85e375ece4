"""Runs of Gaussians, in closed form or projected."""

from typing import ClassVar, Literal

import jax
from typing_extensions import override

from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points
from meanfield.runs.building._parameters import Draw
from meanfield.runs.building._tokens import moments, placed
from meanfield.spec import RunSpec

from ._representation import AbstractRepresentation, Frame, representations


class GaussianRuns(AbstractRepresentation[Gaussian]):
    """A Gaussian stands for tokens by their moments."""

    name: ClassVar[str] = "gaussian"
    kind: ClassVar[type[AbstractMeasure]] = Gaussian
    noun: ClassVar[str] = "Gaussian"
    place: ClassVar[str] = "mean"
    begins_with: ClassVar[Literal["tokens", "moments", "law"]] = "moments"
    stands_for_tokens: ClassVar[str] = "starts with the moments of the tokens"

    @override
    def of_law(self, spec: RunSpec, d: int, draw: Draw) -> Gaussian:
        if spec.init == "gaussian":
            return placed(spec, d, draw)
        return super().of_law(spec, d, draw)

    @override
    def of_tokens(self, spec: RunSpec, points: Points) -> Gaussian:
        return moments(points)

    @override
    def of_frame(self, spec: RunSpec, mu: AbstractMeasure) -> Gaussian:
        return _Moments()(mu)

    @override
    def draws_tokens(self, spec: RunSpec) -> bool:
        return spec.init != "gaussian"

    @override
    def restored(self, spec: RunSpec, frame: Frame, static: Frame) -> Gaussian:
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


representations.register("gaussian")(GaussianRuns())
