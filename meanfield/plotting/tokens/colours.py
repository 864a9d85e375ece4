"""Colourings of tokens and their paths, with legends and colour scales."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize, to_rgba_array
from matplotlib.lines import Line2D

from meanfield._registry import Registry
from meanfield.clusters import component_labels
from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.bands import are_log_spaced
from meanfield.plotting._figure.marks import dot_entry
from meanfield.plotting._figure.style import CYCLE, GREY, number_map
from meanfield.plotting._figure.text import verbatim
from meanfield.plotting.reading.data import Cloud, Swarm
from meanfield.plotting.reading.metrics import link_of

# At most six groups of tokens have colours of their own, or three if the six heaviest
# groups have less than 90 % of the weight. By default, colours show final clusters if
# several clusters have at least 2 % of the weight each and 90 % together.
_N_COLOURS, _HEAVY, _MIN_SHARE, _N_NAMED = 6, 0.02, 0.9, 3
# Clusters are shown by default if their RMS radii are at most this share of the
# smallest distance between two of them: the arcs of a ring have 0.29.
_TIGHT = 0.2


class Colouring(NamedTuple):
    """Colours of tokens (n, 4) and of their paths (time - 1, n, 4), with a legend."""

    tokens: np.ndarray
    paths: np.ndarray
    scale: ScalarMappable | None
    label: str
    handles: list[Line2D]

    @property
    def note(self) -> str:
        """A note on the meaning of the colours, for colours without a colour scale."""
        return f"colours: {self.label}" if self.label and self.scale is None else ""


Rule = Callable[[Cloud, Swarm], Colouring]
colourings: Registry[Rule] = Registry("colouring of tokens")


def colouring(cloud: Cloud, state: Swarm, otherwise: Rule) -> Colouring:
    """The colouring that the look names; if it names none, a default.

    If the look sets `link` or `metric`, the default is by cluster. Otherwise it is by
    position if tokens have positions. Without positions, it is by final cluster if two
    to six clusters have nearly all the weight, and are small compared with the
    distances between them. In all other cases it is `otherwise`.

    Raises:
        InvalidInputError: if the tokens lack what the colouring needs, or the look has
            `link` or `metric` together with another colouring.
        UnknownNameError: if the colouring is not registered.
    """
    colour = cloud.look.colour
    linking = [n for n in ("link", "metric") if getattr(cloud.look, n) is not None]
    if linking and colour not in (None, "cluster"):
        raise InvalidInputError(
            f"`{linking[0]}` applies to clusters, which `colour {colour}` does not "
            "show. Leave out one of these two options."
        )
    if colour is not None:
        return colourings[colour](cloud, state)
    if linking:
        return colour_by_cluster(cloud, state)
    name = default_colouring(cloud, state)
    return (otherwise if name is None else colourings[name])(cloud, state)


def default_colouring(cloud: Cloud, state: Swarm) -> str | None:
    """The colouring by position or by final cluster, if it suits the tokens."""
    if state.position is not None:
        return "position"
    labels, points = final_clusters(cloud, state)
    masses = np.bincount(labels, weights=state.weights)
    heaviest = np.argsort(masses)[::-1][:_N_COLOURS]
    heaviest = heaviest[masses[heaviest] >= _HEAVY]
    is_split = heaviest.size > 1 and masses[heaviest].sum() >= _MIN_SHARE
    return "cluster" if is_split and _are_separate(points, labels, heaviest) else None


def _are_separate(points: np.ndarray, labels: np.ndarray, names: np.ndarray) -> bool:
    """Whether some clusters are small compared with the distances between them."""
    groups = [points[labels == name] for name in names]
    centres = np.array([group.mean(axis=0) for group in groups])
    offsets = [group - group.mean(axis=0) for group in groups]
    sizes = [np.sqrt(np.mean(np.sum(offset**2, axis=1))) for offset in offsets]
    gaps = np.linalg.norm(centres[:, None] - centres, axis=-1)
    return bool(max(sizes) < _TIGHT * gaps[~np.eye(names.size, dtype=bool)].min())


def check_no_colours(cloud: Cloud) -> None:
    """Raises if the look of a Gaussian sets options for the colours of tokens.

    Raises:
        InvalidInputError: if `colour`, `link` or `metric` is set.
    """
    for name in ("colour", "link", "metric"):
        if getattr(cloud.look, name) is not None:
            raise InvalidInputError(
                f"`{name}` is for tokens; this run has a Gaussian, coloured by "
                "time. Leave the option out."
            )


@colourings.register("start")
def colour_by_start(cloud: Cloud, state: Swarm) -> Colouring:
    """Colours by the initial coordinate along the first axis of the picture."""
    return _colour_by_number(cloud, state.x[0, :, 0], "first axis at the start")


@colourings.register("norm")
def colour_by_norm(cloud: Cloud, state: Swarm) -> Colouring:
    """Colours by the norm of tokens in the last frame, in all coordinates."""
    last = _whole(cloud, state).x[-1]
    return _colour_by_number(cloud, np.linalg.norm(last, axis=-1), "norm at the end")


@colourings.register("position")
def colour_by_position(cloud: Cloud, state: Swarm) -> Colouring:
    """Colours by the position of tokens."""
    if state.position is None:
        raise InvalidInputError(
            "`colour position` needs tokens with an order, as in a text or with a mask."
        )
    return _colour_by_number(cloud, state.position, "position $s$", Normalize(0.0, 1.0))


@colourings.register("cluster")
def colour_by_cluster(cloud: Cloud, state: Swarm) -> Colouring:
    """Colours by the cluster of tokens in the last frame."""
    labels = final_clusters(cloud, state)[0]
    masses = np.bincount(labels, weights=state.weights)
    names = [f"cluster, {_share(mass)}" for mass in masses]
    if cloud.words is not None:
        counts = np.bincount(labels)
        for token in np.flatnonzero(counts[labels] == 1):
            names[labels[token]] = verbatim(cloud.words[token])
    label = "final clusters"
    if cloud.look.metric is not None:
        label += f", {cloud.look.metric}"
    return _colour_by_group(cloud, labels, masses, names, label)


@colourings.register("label")
def colour_by_label(cloud: Cloud, state: Swarm) -> Colouring:
    """Colours by the words of tokens, or by their labels in the dataset."""
    if cloud.words is None:
        raise InvalidInputError(
            "`colour label` needs a label for each token: the words of a text, "
            "`--colour @labels.npy`, or a variable `word` in the dataset."
        )
    names, labels = np.unique(cloud.words, return_inverse=True)
    masses = np.bincount(labels, weights=state.weights)
    entries = [verbatim(name) for name in names]
    return _colour_by_group(cloud, labels, masses, entries, "labels")


def _whole(cloud: Cloud, state: Swarm) -> Swarm:
    """The tokens in all coordinates, before projection onto the picture."""
    whole = state if cloud.whole is None else cloud.whole.state
    assert isinstance(whole, Swarm)
    return whole


def final_clusters(cloud: Cloud, state: Swarm) -> tuple[np.ndarray, np.ndarray]:
    """Cluster labels of the last frame, and tokens embedded by the metric, (n, k)."""
    whole = _whole(cloud, state)
    link = link_of(cloud.look, whole, moves_directions=cloud.moves_directions)
    points, radii = link.embed(whole.take(np.array([0, -1])))
    return component_labels(points[-1], radii[-1]), points[-1]


def _colour_by_number(
    cloud: Cloud, numbers: np.ndarray, label: str, norm: Normalize | None = None
) -> Colouring:
    """Colours on the scale `norm`; by default, from the least number to the largest."""
    norm = norm or Normalize(numbers.min(), numbers.max())
    scale = ScalarMappable(norm, number_map(cloud.look))
    return _constant(scale.to_rgba(numbers), cloud.times.size - 1, scale, label)


def _constant(
    tokens: np.ndarray, steps: int, scale: ScalarMappable | None, label: str
) -> Colouring:
    """A colouring with each path in the colour of its token."""
    paths = np.broadcast_to(tokens, (steps, *tokens.shape))
    return Colouring(tokens, paths, scale, label, [])


def _colour_by_group(
    cloud: Cloud, labels: np.ndarray, masses: np.ndarray, names: list[str], label: str
) -> Colouring:
    """A colour for each of the heaviest groups, and grey for the others.

    If the coloured groups would have less than 90 % of the weight, only three groups
    get a colour.
    """
    order = np.argsort(-masses, kind="stable")[:_N_COLOURS]
    order = order[(masses[order] >= _HEAVY) | (masses.size <= _N_COLOURS)]
    if masses[order].sum() < _MIN_SHARE:
        order = order[:_N_NAMED]
    palette = np.tile(to_rgba_array(GREY), (masses.size, 1))
    palette[order] = to_rgba_array(CYCLE[: order.size]) if order.size else 0.0
    pairs = zip(CYCLE, order, strict=False)
    handles = [dot_entry(names[i], colour) for colour, i in pairs]
    if masses.size > order.size:
        rest = _share(1.0 - masses[order].sum())
        handles.append(dot_entry(f"{masses.size - order.size} more, {rest}", GREY))
    result = _constant(palette[labels], cloud.times.size - 1, None, label)
    return result._replace(handles=handles)


def uniform_colour(cloud: Cloud, state: Swarm) -> Colouring:
    """One colour for all tokens, for pictures with a time axis."""
    return single_colour(cloud.times, state.weights.size)


def single_colour(times: np.ndarray, n: int) -> Colouring:
    """One colour for `n` dots."""
    return _constant(np.tile(to_rgba_array(CYCLE[0]), (n, 1)), times.size - 1, None, "")


def time_scale(cloud: Cloud) -> ScalarMappable:
    """The colour scale of time, logarithmic if the times of frames are."""
    times, norm = cloud.times, Normalize(cloud.times[0], cloud.times[-1])
    if are_log_spaced(times):
        norm = LogNorm(times[times > 0][0], times[-1], clip=True)
    return ScalarMappable(norm, number_map(cloud.look))


@colourings.register("time")
def colour_by_time(cloud: Cloud, state: Swarm) -> Colouring:
    """Colours of paths by time, and of tokens by the last time."""
    times, n = cloud.times, state.weights.size
    scale = time_scale(cloud)
    middle = scale.to_rgba((times[1:] + times[:-1]) / 2).reshape(-1, 1, 4)
    paths = np.broadcast_to(middle, (times.size - 1, n, 4))
    tokens = np.tile(scale.to_rgba(times[-1:]), (n, 1))
    bar_scale = None if times.size == 1 else scale
    return Colouring(tokens, paths, bar_scale, "time $t$", [])


def _share(mass: float) -> str:
    return f"{100 * mass:.3g} % of weight"
