"""The colours of tokens and of their paths: by what, and what explains them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_rgba_array
from matplotlib.lines import Line2D

from meanfield._registry import Registry
from meanfield.clusters import component_labels
from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.style import CYCLE, GREY, number_map
from meanfield.plotting._figure.text import verbatim
from meanfield.plotting.reading.data import Cloud, Swarm
from meanfield.plotting.reading.metrics import EUCLIDEAN, metrics

# At most so many groups get a colour each. Final clusters do by themselves if they are
# of at least 2 % of the weight each and hold 90 % of it together. Groups that hold
# less are so many that naming the first few is enough.
_N_COLOURS, _HEAVY, _HELD, _FEW = 6, 0.02, 0.9, 3


class Colouring(NamedTuple):
    """Colours (n, 4) of tokens; of their paths, (time - 1, n, 4); what they mean."""

    tokens: np.ndarray
    paths: np.ndarray
    scale: ScalarMappable | None
    label: str
    handles: list[Line2D]

    @property
    def note(self) -> str:
        """What colours without a scale mean."""
        return f"colours: {self.label}" if self.label else ""


Rule = Callable[[Cloud, Swarm], Colouring]
colourings: Registry[Rule] = Registry("colouring of tokens")


def colouring(cloud: Cloud, state: Swarm, otherwise: Rule) -> Colouring:
    """The colours that the look chooses; else the most telling ones.

    Who chooses a `link` or a `metric` asks for clusters. The most telling are by
    position if tokens have one, else by final cluster, if two to six of them hold
    nearly all the weight, else `otherwise`.

    Raises:
        InvalidInputError: if the tokens have not what is to be shown, or clusters are
            linked and not shown.
        UnknownNameError: if there is no such colouring.
    """
    colour = cloud.look.colour
    linking = [n for n in ("link", "metric") if getattr(cloud.look, n) is not None]
    if linking and colour not in (None, "cluster"):
        raise InvalidInputError(
            f"`{linking[0]}` is for clusters, which `colour {colour}` does not show: "
            "leave out one of them."
        )
    if colour is not None:
        return colourings[colour](cloud, state)
    if linking:
        return by_cluster(cloud, state)
    if state.position is not None:
        return by_position(cloud, state)
    labels = _final_clusters(cloud, state)
    masses = np.bincount(labels, weights=state.weights)
    heaviest = np.sort(masses)[::-1][:_N_COLOURS]
    heaviest = heaviest[heaviest >= _HEAVY]
    if heaviest.size > 1 and heaviest.sum() >= _HELD:
        return by_cluster(cloud, state)
    return otherwise(cloud, state)


def refuse_colours(cloud: Cloud) -> None:
    """Refuse colours of tokens for what has none.

    Raises:
        InvalidInputError: if the look chooses some.
    """
    for name in ("colour", "link", "metric"):
        if getattr(cloud.look, name) is not None:
            raise InvalidInputError(
                f"`{name}` is for tokens; this run moved a Gaussian, which is coloured "
                "by time."
            )


@colourings.register("start")
def by_start(cloud: Cloud, state: Swarm) -> Colouring:
    """By where a token starts along the first axis of the picture."""
    return _by_number(cloud, state.x[0, :, 0], "first axis at the start")


@colourings.register("norm")
def by_norm(cloud: Cloud, state: Swarm) -> Colouring:
    """By the norm of a token in the last frame, in all coordinates."""
    last = _whole(cloud, state).x[-1]
    return _by_number(cloud, np.linalg.norm(last, axis=-1), "norm at the end")


@colourings.register("position")
def by_position(cloud: Cloud, state: Swarm) -> Colouring:
    """By the place of a token in its order."""
    if state.position is None:
        raise InvalidInputError(
            "`colour position` needs tokens in an order: those of a text, or of a run "
            "with a mask."
        )
    return _by_scale(cloud, state.position, Normalize(0.0, 1.0), "position $s$")


@colourings.register("cluster")
def by_cluster(cloud: Cloud, state: Swarm) -> Colouring:
    """By the cluster of a token in the last frame."""
    labels = _final_clusters(cloud, state)
    masses = np.bincount(labels, weights=state.weights)
    names = [f"cluster, {_share(mass)}" for mass in masses]
    if cloud.words is not None:
        counts = np.bincount(labels)
        for token in np.flatnonzero(counts[labels] == 1):
            names[labels[token]] = verbatim(cloud.words[token])
    what = "final clusters"
    if cloud.look.metric is not None:
        what += f", {cloud.look.metric}"
    return _by_group(cloud, labels, masses, names, what)


@colourings.register("label")
def by_label(cloud: Cloud, state: Swarm) -> Colouring:
    """By the word of a token, or by the label that the dataset gives it."""
    if cloud.words is None:
        raise InvalidInputError(
            "`colour label` needs tokens with labels: those of a text have words; else "
            "give a label for each token, as `--colour @labels.npy`, or as `word` of "
            "the dataset."
        )
    names, labels = np.unique(cloud.words, return_inverse=True)
    masses = np.bincount(labels, weights=state.weights)
    shown = [verbatim(name) for name in names]
    return _by_group(cloud, labels, masses, shown, "labels")


def _whole(cloud: Cloud, state: Swarm) -> Swarm:
    """The tokens in all coordinates, not in those of the page."""
    whole = state if cloud.whole is None else cloud.whole.state
    assert isinstance(whole, Swarm)
    return whole


def _final_clusters(cloud: Cloud, state: Swarm) -> np.ndarray:
    """The clusters of the last frame, in all coordinates."""
    whole = _whole(cloud, state)
    x, weights = whole.x[[0, -1]], whole.weights
    metric = metrics[cloud.look.metric or EUCLIDEAN]
    link = cloud.look.link or metric.default_link(x[0], weights)
    seen, radii = metric.linked(whole._replace(x=x), link)
    return component_labels(seen[-1], radii[-1])


def _by_number(cloud: Cloud, numbers: np.ndarray, label: str) -> Colouring:
    return _by_scale(cloud, numbers, Normalize(numbers.min(), numbers.max()), label)


def _by_scale(
    cloud: Cloud, numbers: np.ndarray, norm: Normalize, label: str
) -> Colouring:
    scale = ScalarMappable(norm, number_map(cloud.look))
    return _constant(scale.to_rgba(numbers), cloud.times.size - 1, scale, label)


def _constant(
    tokens: np.ndarray, steps: int, scale: ScalarMappable | None, label: str
) -> Colouring:
    """Each path in the colour of its token."""
    paths = np.broadcast_to(tokens, (steps, *tokens.shape))
    return Colouring(tokens, paths, scale, label, [])


def _by_group(
    cloud: Cloud, labels: np.ndarray, masses: np.ndarray, names: list[str], what: str
) -> Colouring:
    """A colour for each of the heaviest groups, and grey for the others.

    Where those with a colour would hold little of the weight, only few have one.
    """
    order = np.argsort(-masses, kind="stable")[:_N_COLOURS]
    order = order[(masses[order] >= _HEAVY) | (masses.size <= _N_COLOURS)]
    if masses[order].sum() < _HELD:
        order = order[:_FEW]
    palette = np.tile(to_rgba_array(GREY), (masses.size, 1))
    palette[order] = to_rgba_array(CYCLE[: order.size]) if order.size else 0.0
    handles = [_dot(colour, names[i]) for colour, i in zip(CYCLE, order, strict=False)]
    if masses.size > order.size:
        rest = _share(1.0 - masses[order].sum())
        handles.append(_dot(GREY, f"{masses.size - order.size} more, {rest}"))
    coloured = _constant(palette[labels], cloud.times.size - 1, None, what)
    return coloured._replace(handles=handles)


def uniform(cloud: Cloud, state: Swarm) -> Colouring:
    """One colour for all tokens, where time has an axis of its own."""
    return single(cloud.times, state.weights.size)


def single(times: np.ndarray, n: int) -> Colouring:
    """One colour for so many dots."""
    return _constant(np.tile(to_rgba_array(CYCLE[0]), (n, 1)), times.size - 1, None, "")


def time_scale(cloud: Cloud) -> ScalarMappable:
    """Colours from the first time, dark, to the last, light."""
    norm = Normalize(cloud.times[0], cloud.times[-1])
    return ScalarMappable(norm, number_map(cloud.look))


def by_time(cloud: Cloud, state: Swarm) -> Colouring:
    """Paths that change colour with time."""
    times, n = cloud.times, state.weights.size
    scale = time_scale(cloud)
    middle = scale.to_rgba((times[1:] + times[:-1]) / 2).reshape(-1, 1, 4)
    paths = np.broadcast_to(middle, (times.size - 1, n, 4))
    tokens = np.tile(scale.to_rgba(times[-1:]), (n, 1))
    shown = None if times.size == 1 else scale
    return Colouring(tokens, paths, shown, "time $t$", [])


def _share(mass: float) -> str:
    return f"{100 * mass:.3g} % of weight"


def _dot(colour: str, label: str) -> Line2D:
    return Line2D([], [], color=colour, marker="o", linestyle="", label=label)
