r"""Numbers of one frame of tokens, by name: shares of close pairs, order, centres.

The module uses NumPy and SciPy only. All numbers depend on directions $x/|x|$, so they
are meant for tokens on spheres; `sphere-energy` and `leaders` also use lengths. A name
may have a number of its own, as in `pairs:0.99`.
"""

import inspect
import math
import re
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy  # SciPy loads its submodules lazily
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from meanfield._registry import Registry
from meanfield.clusters import (
    SPHERE_LINK,
    component_labels,
    embed_directions,
    unit_vectors,
)
from meanfield.errors import InvalidInputError

FrameNumber = Callable[..., float]
Tokens = Float[np.ndarray, "n d"]
Weights = Float[np.ndarray, " n"]

frame_numbers: Registry[FrameNumber] = Registry("number of a frame")
_BLOCK = 512  # tokens at a time are compared with all others, to bound the memory


def frame_number(text: str) -> Callable[[ArrayLike, ArrayLike], float]:
    """The function called `NAME`, or `NAME:NUMBER`, of tokens and their weights.

    Frames that are not finite, or have a token at zero, have the number NaN.

    Raises:
        InvalidInputError: if the number is invalid.
        UnknownNameError: if there is no such name.

    Examples:
        >>> from meanfield.frame_numbers import frame_number
        >>> x = np.array([[1.0, 0.0], [1.0, 1e-3], [0.0, 1.0]])
        >>> frame_number("pairs:0.99")(x, np.full(3, 1 / 3))  # one of three
        0.33333...
    """
    name, _, number = text.partition(":")
    function = frame_numbers[name]
    keywords = [*inspect.signature(function).parameters][2:]
    if not number:
        return _finite_only(function)
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not keywords or not math.isfinite(value):
        form = ":".join([name, *map(str.upper, keywords)])
        raise InvalidInputError(f"The number must be written `{form}`; got `{text}`.")
    _check_number(function, value)
    return _finite_only(lambda x, weights: function(x, weights, value))


def is_frame_number(text: str) -> bool:
    """Whether `text` names a number of a frame.

    Examples:
        >>> from meanfield.frame_numbers import is_frame_number
        >>> is_frame_number("pairs:0.99"), is_frame_number("interaction-energy")
        (True, False)
    """
    return text.partition(":")[0] in frame_numbers


def variable_name(text: str) -> str:
    """The name of the variable of a number in a dataset.

    Examples:
        >>> from meanfield.frame_numbers import variable_name
        >>> variable_name("strong-centres:0.5")
        'strong_centres_0_5'
    """
    return re.sub(r"\W", "_", text)


def _check_number(function: FrameNumber, value: float) -> None:
    """Raises if the number is out of range for a function, whatever the tokens."""
    try:
        function(np.eye(2), np.full(2, 0.5), value)
    except InvalidInputError:
        raise
    except Exception:  # noqa: BLE001 (a plugin may need other tokens than these two)
        return


def _finite_only(
    function: FrameNumber,
) -> Callable[[ArrayLike, ArrayLike], float]:
    def number(tokens: ArrayLike, weights: ArrayLike) -> float:
        x, weights = np.asarray(tokens), np.asarray(weights)
        has_weight = weights > 0
        x, weights = x[has_weight], weights[has_weight]
        if not np.all(np.isfinite(x) & np.any(x, axis=1, keepdims=True)):
            return math.nan
        return float(function(x.astype(float), weights / weights.sum()))

    return number


@frame_numbers.register("cosine-clusters")
def cosine_clusters(x: Tokens, weights: Weights, link: float = SPHERE_LINK) -> float:
    """Connected components of the tokens whose cosine is at least 1 − `link`.

    Examples:
        >>> from meanfield.frame_numbers import cosine_clusters
        >>> cosine_clusters(np.eye(3), np.full(3, 1 / 3))
        3.0
    """
    del weights
    distance = math.sqrt(2 * _check_range("cosine-clusters", link, 0.0, 2.0))
    labels = component_labels(embed_directions(x), distance)
    return float(labels.max() + 1)


@frame_numbers.register("pairs")
def pairs(x: Tokens, weights: Weights, cosine: float = 0.999) -> float:
    """Share of the pairs of different tokens whose cosine is at least `cosine`.

    Examples:
        >>> from meanfield.frame_numbers import pairs
        >>> pairs(np.ones((4, 2)), np.full(4, 1 / 4))
        1.0
    """
    del weights
    tree, n = scipy.spatial.KDTree(unit_vectors(x)), len(x)
    distance = math.sqrt(2 - 2 * _check_range("pairs", cosine, -1.0, 1.0))
    count = tree.count_neighbors(tree, distance)
    return (int(count) - n) / max(n * (n - 1), 1)


@frame_numbers.register("span")
def span(x: Tokens, weights: Weights) -> float:
    """Dimension of the span of the tokens: their singular values above rounding.

    Examples:
        >>> from meanfield.frame_numbers import span
        >>> span(np.array([[1.0, 1.0, 0.0], [-2.0, -2.0, 0.0]]), np.full(2, 1 / 2))
        1.0
    """
    del weights
    return float(np.linalg.matrix_rank(unit_vectors(x)))


@frame_numbers.register("order")
def order(x: Tokens, weights: Weights, degree: float = 1.0) -> float:
    r"""Order parameter of a degree $k$, between 0 and 1 for tokens that are aligned.

    On the circle it is $|\int e^{ik\theta} d\mu|$. On the sphere in $R^d$ it is
    $(\iint P_k(x\cdot y)\, d\mu\, d\mu)^{1/2}$ with the Gegenbauer polynomial $P_k$ of
    index $(d - 2)/2$ and $P_k(1) = 1$. For $k = 1$ it is $|\int x\, d\mu|$.

    Examples:
        >>> from meanfield.frame_numbers import order
        >>> x = np.array([[1.0, 0.0], [-1.0, 0.0]])
        >>> order(x, np.full(2, 1 / 2)), order(x, np.full(2, 1 / 2), 2.0)
        (0.0, 1.0)
    """
    directions, degree = unit_vectors(x), _whole("order", degree)
    if degree == 1:
        return float(np.linalg.norm(weights @ directions))
    polynomial = partial(normalised_gegenbauer, degree, x.shape[1])
    return math.sqrt(max(_double_integral(directions, weights, polynomial), 0.0))


@frame_numbers.register("hemisphere")
def hemisphere(x: Tokens, weights: Weights) -> float:
    r"""Margin $\max_{|u|=1}\min_i u\cdot x_i$ of the tokens in a hemisphere, or 0.

    It is the distance of the origin to the convex hull of the directions.

    Examples:
        >>> from meanfield.frame_numbers import hemisphere
        >>> round(hemisphere(np.eye(2), np.full(2, 1 / 2)), 12)  # 1/√2
        0.707106781187
    """
    del weights
    directions = unit_vectors(x)
    # The least |Xᵀc|² + (Σc - 1)² over c ≥ 0 is m²/(1 + m²) for the distance m.
    system = np.vstack([directions.T, np.ones(len(x))])
    residual = scipy.optimize.nnls(system, np.append(np.zeros(x.shape[1]), 1.0))[1]
    rounding = 4 * np.finfo(float).eps ** 0.5
    return 0.0 if residual <= rounding else residual / math.sqrt(1 - residual**2)


@frame_numbers.register("leaders")
def leaders(x: Tokens, weights: Weights) -> float:
    r"""Number of tokens that lead themselves.

    A token leads itself if $x_i\cdot x_i \geq x_j\cdot x_i$ for all $j$, up to
    rounding: none of its scores is larger, for $A = I$. On a sphere all tokens do.

    Examples:
        >>> from meanfield.frame_numbers import leaders
        >>> leaders(np.array([[1.0, 0.0], [0.0, 1.0], [0.2, 0.1]]), np.full(3, 1 / 3))
        2.0
    """
    del weights
    squares, count = np.sum(x**2, axis=1), 0
    for start in range(0, len(x), _BLOCK):
        rows = slice(start, start + _BLOCK)
        best = np.max(x[rows] @ x.T, axis=1)
        count += int(np.sum(squares[rows] >= best * (1 - 8 * np.finfo(float).eps)))
    return float(count)


@frame_numbers.register("centres")
def centres(x: Tokens, weights: Weights, angle: float = 0.5) -> float:
    """Rényi centres: tokens, in turn, farther than `angle` from all earlier centres.

    Examples:
        >>> from meanfield.frame_numbers import centres
        >>> x = np.array([[1.0, 0.0], [np.cos(0.4), np.sin(0.4)], [0.0, 1.0]])
        >>> centres(x, np.full(3, 1 / 3)), strong_centres(x, np.full(3, 1 / 3))
        (2.0, 2.0)
    """
    del weights
    directions, places = unit_vectors(x), np.zeros((0, x.shape[1]))
    largest = math.cos(_check_range("centres", angle, 0.0, math.pi))
    for token in directions:
        if not len(places) or np.max(places @ token) < largest:
            places = np.vstack([places, token])
    return float(len(places))


@frame_numbers.register("strong-centres")
def strong_centres(x: Tokens, weights: Weights, angle: float = 0.5) -> float:
    """Tokens that are farther than `angle` from all earlier tokens.

    Examples:
        >>> from meanfield.frame_numbers import strong_centres
        >>> strong_centres(np.eye(3), np.full(3, 1 / 3))
        3.0
    """
    del weights
    directions = unit_vectors(x)
    nearest = [np.max(directions[:i] @ directions[i]) for i in range(1, len(x))]
    largest = math.cos(_check_range("strong-centres", angle, 0.0, math.pi))
    return 1.0 + float(np.sum(np.array(nearest) < largest))


@frame_numbers.register("sphere-energy")
def sphere_energy(x: Tokens, weights: Weights, beta: float = 1.0) -> float:
    r"""The energy $\tfrac12\iint e^{\beta (x\cdot y - 1)}\, d\mu\, d\mu$.

    It is 1/2 if all tokens are one unit vector.

    Examples:
        >>> from meanfield.frame_numbers import sphere_energy
        >>> sphere_energy(np.ones((3, 1)), np.full(3, 1 / 3))
        0.5
    """
    return _double_integral(x, weights, lambda s: np.exp(beta * (s - 1))) / 2


def _double_integral(
    x: Tokens, weights: Weights, function: Callable[[np.ndarray], np.ndarray]
) -> float:
    r"""The integral $\iint f(x\cdot y)\, d\mu(x)\, d\mu(y)$."""
    total = 0.0
    for start in range(0, len(x), _BLOCK):
        rows = slice(start, start + _BLOCK)
        total += weights[rows] @ function(x[rows] @ x.T) @ weights
    return float(total)


def normalised_gegenbauer(
    degree: int | Int[np.ndarray, " k"], d: int, cosine: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """The Gegenbauer polynomial of the sphere in dimension `d`, which is 1 at 1.

    Examples:
        >>> from meanfield.frame_numbers import normalised_gegenbauer
        >>> print(normalised_gegenbauer(2, 3, np.array([0.0, 1.0])))  # (3 c² - 1)/2
        [-0.5  1. ]
    """
    if d == 2:
        return np.cos(degree * np.arccos(np.clip(cosine, -1, 1)))
    power = (d - 2) / 2
    polynomial = scipy.special.eval_gegenbauer(degree, power, np.clip(cosine, -1, 1))
    return polynomial / scipy.special.eval_gegenbauer(degree, power, 1.0)


def _check_range(name: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise InvalidInputError(
            f"The number of `{name}` must be from {low:g} to {high:.5g}; got {value:g}."
        )
    return value


def _whole(name: str, value: float) -> int:
    if value != int(value) or value < 1:
        raise InvalidInputError(
            f"The number of `{name}` must be whole, at least 1; got {value:g}."
        )
    return int(value)
