"""A measure: a finite mixture of Gaussians, each moved by the projected closure."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from typing_extensions import override

import meanfield.runs.representations as runs
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField, Convergence
from meanfield.flows.motions import Motion, motions
from meanfield.linalg import HIGHEST, length
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Points, Tensor
from meanfield.measures.clouds.named import DEVIATION, mixture_centres
from meanfield.spec import MeasureInfo, measures
from meanfield.storage import Kind, kinds
from meanfield.tokens import Tokens

NODES = 512  # of all components together, where `FEWEST` along each axis are no more
FEWEST, MOST = 4, 64  # nodes along an axis
LARGEST_RANK = 5  # of a component: beyond, `FEWEST` along each axis are too many
TOLERANCE = 0.01  # of the rates, relative to the speed

Parts = tuple[Float[Array, "c d"], Float[Array, "c d r"]]


class Mixture(AbstractMeasure):
    r"""$\mu = \sum_k w_k N(\alpha_k, Y_kY_k^\top)$.

    Each component follows the velocities $v = v[\mu]$ of the whole as `Projected` lets
    one Gaussian follow its own: $\alpha_k' = E\,v(x)$ and $Y_k' = E[v(x)z^\top]$ for
    $x = \alpha_k + Y_kz$ and a standard normal $z$.
    """

    share: Float[Array, " c"]  # the weights, which sum to one and do not change
    means: Float[Array, "c d"]
    factors: Float[Array, "c d r"]
    rule: Tensor  # nodes for the averages over each component

    @property
    def points(self) -> Points:
        """The nodes of all components, one after the other, as weighted tokens."""
        z, weights = self.rule.factor_nodes(self.factors[0])
        away = jnp.einsum("mr,cdr->cmd", z, self.factors, precision=HIGHEST)
        x = (self.means[:, None, :] + away).reshape(-1, self.dimension)
        return Points(Tokens(x), jnp.log(jnp.outer(self.share, weights)).ravel())

    @property
    def mean(self) -> Float[Array, " d"]:
        r"""$\alpha = \sum_k w_k\alpha_k$."""
        return self.share @ self.means

    @property
    def covariance(self) -> Float[Array, "d d"]:
        r"""$\sum_k w_k (Y_kY_k^\top + (\alpha_k - \alpha)(\alpha_k - \alpha)^\top)$."""
        away = (self.means - self.mean[None, :])[:, :, None]
        both = jnp.concatenate([self.factors, away], axis=2)
        return jnp.einsum("c,cir,cjr->ij", self.share, both, both, precision=HIGHEST)

    @property
    @override
    def dimension(self) -> int:
        return self.means.shape[-1]

    @property
    @override
    def coordinates(self) -> Parts:
        return self.means, self.factors

    @override
    def replace_coordinates(self, coordinates: Parts) -> "Mixture":
        return Mixture(self.share, *coordinates, self.rule)

    @override
    def accept(self, reader: AbstractReader[Any]) -> Any:
        return reader.read_nodes(self, self.points)

    @override
    def transport(self, field: AbstractField) -> Parts:
        z, w = self.rule.factor_nodes(self.factors[0])
        v = field(self.points.tokens).reshape(len(self.means), len(w), -1)
        means = jnp.einsum("m,cmd->cd", w, v, precision=HIGHEST)
        return means, jnp.einsum("m,cmd,mr->cdr", w, v, z, precision=HIGHEST)

    @override
    def norm(self, tangent: Parts) -> Float[Array, ""]:
        flat = [part.reshape(len(self.share), -1) for part in tangent]
        return length(jnp.sqrt(self.share)[:, None] * jnp.concatenate(flat, axis=1))

    @property
    @override
    def size(self) -> Float[Array, ""]:
        return self.norm(self.coordinates)

    @override
    def error_norm(self, error: Parts) -> Float[Array, ""]:
        even = (self.share + 1 / len(self.share)) / 2  # small components count too
        return Mixture(even, *error, self.rule).size


class MixtureMotion(Motion[Mixture]):
    """A flow whose nodes do not resolve the velocities ends as `unconverged`."""

    @override
    def sum_convergence(
        self, freeze: Callable[..., AbstractField], mu: Mixture, field: AbstractField
    ) -> Convergence:
        finer = Mixture(mu.share, *mu.coordinates, mu.rule.control)
        rates, others = mu.transport(field), finer.transport(freeze(finer))
        speed = mu.points.norm(field(mu.points.tokens))
        gap = mu.norm(jax.tree.map(jnp.subtract, rates, others))
        relative = gap / jnp.maximum(speed, jnp.finfo(speed.dtype).tiny)
        return Convergence(relative, jnp.asarray(TOLERANCE, relative.dtype))


class MixtureRuns(runs.AbstractRepresentation[Mixture]):
    """A Gaussian is one component; tokens are one each, blurred as on a grid."""

    name: ClassVar[str] = "mixture"
    kind: ClassVar[type[AbstractMeasure]] = Mixture
    noun: ClassVar[str] = "mixture of Gaussians"
    space_variable: ClassVar[str] = "means"
    counts_tokens: ClassVar[bool] = False
    static_names: ClassVar[tuple[str, ...]] = ("share",)
    tokens_note: ClassVar[str] = "starts as the tokens, blurred"
    approximation: ClassVar[str] = "its components are kept Gaussian, by projection"

    @override
    def from_law(self, start: runs.Start) -> Mixture:
        if start.init not in ("gaussian", "mixture"):
            raise InvalidInputError("`init` of a mixture is `gaussian` or `mixture`.")
        frame = start.frame
        if start.init == "gaussian":
            return self.from_frame(start, frame)
        centre_key, _ = jax.random.split(start.key)  # as the cloud does
        centres = mixture_centres(start.d, key=centre_key) @ frame.factor.T
        return _about(frame, jnp.ones(len(centres)), centres, DEVIATION)

    @override
    def from_tokens(self, start: runs.Start, points: Points) -> Mixture:
        """Tokens are drawn in, so that their mean and covariance stay, blurred."""
        if (b := start.grid.keys.bandwidth) is None:
            raise InvalidInputError("Tokens become components: give their `bandwidth`.")
        frame = runs.representations["gaussian"].from_tokens(start, points)
        away = (points.safe_tokens.x - frame.mean[None, :]) / np.sqrt(1 + b**2)
        return _about(frame, points.weights, away, b / np.sqrt(1 + b**2))

    @override
    def from_frame(self, start: runs.Start, mu: AbstractMeasure) -> Mixture:
        if isinstance(mu, Mixture):
            return mu
        if isinstance(mu, Points):
            return self.from_tokens(start, mu)
        frame = runs.representations["gaussian"].from_frame(start, mu)
        return _about(frame, jnp.ones(1), 0 * frame.mean[None, :], 1.0)

    @override
    def restore(self, start: runs.Start, frame: Any, static: Any) -> Mixture:
        parts = static["share"], frame["means"], frame["factors"]
        return _mixture(*map(jnp.asarray, parts))


def _mixture(share: Array, means: Array, factors: Array) -> Mixture:
    count, _, rank = factors.shape
    if rank > LARGEST_RANK:
        raise InvalidInputError(f"Components have at most {LARGEST_RANK} dimensions.")
    along = int((NODES / count) ** (1 / max(rank, 1)) + 1e-9)
    share, means = share.astype(factors.dtype), means.astype(factors.dtype)
    return Mixture(share, means, factors, Tensor(min(max(along, FEWEST), MOST)))


def _about(frame: Gaussian, weights: Array, away: Array, scale: float) -> Mixture:
    """Components `scale` times as wide as a Gaussian, and `away` from its mean."""
    factors = jnp.tile(scale * frame.factor, (len(away), 1, 1))
    return _mixture(weights / jnp.sum(weights), frame.mean[None, :] + away, factors)


def moments(data: xr.Dataset) -> dict[str, xr.DataArray]:
    """Mean and a factor of the covariance, for pictures and tables."""
    mean = (data["share"] * data["means"]).sum("component")
    both = xr.concat([data["factors"], data["means"] - mean], dim="column")
    factor = (np.sqrt(data["share"]) * both).stack(rank=("component", "column"))
    return {"mean": mean, "factor": factor.reset_index("rank", drop=True)}


idle = {"n": "has components instead", "reduction": "sums over its nodes"}
dims = {"share": ("component",), "means": ("time", "component", "coord")}
dims["factors"] = (*dims["means"], "column")
bw = ("bandwidth",)
info = MeasureInfo(description="weighted Gaussians", extra_keys=bw, excluded_keys=idle)
measures.register("mixture")(info)
kinds.register("mixture")(Kind(("means", "factors"), ("share",), dims, moments))
motions[Mixture] = MixtureMotion()
runs.representations.register("mixture")(MixtureRuns())
