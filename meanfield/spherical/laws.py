"""Initial densities on spheres, by name and numbers, such as `vmf:5`."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from meanfield._registry import Registry
from meanfield.errors import InvalidInputError
from meanfield.frame_numbers import normalised_gegenbauer

Angles = Float[np.ndarray, " m"]
Values = Float[np.ndarray, " m"]

spherical_laws: Registry[Callable[..., Values]] = Registry("density on a sphere")


@spherical_laws.register("uniform")
@spherical_laws.register("gaussian")
def uniform(angles: Angles, d: int) -> Values:
    """The uniform density, also that of the directions of a standard normal.

    Examples:
        >>> from meanfield.spherical.laws import uniform
        >>> print(uniform(np.zeros(2), 3))
        [1. 1.]
    """
    del d
    return np.ones_like(angles)


@spherical_laws.register("vmf")
def vmf(angles: Angles, d: int, concentration: float = 1.0) -> Values:
    r"""The von Mises–Fisher density $\propto e^{c\cos\theta}$.

    Examples:
        >>> from meanfield.spherical.laws import vmf
        >>> print(vmf(np.array([0.0, np.pi]), 3, 2.0), np.exp(-4))
        [1.     0.0183] 0.01831...
    """
    del d
    return np.exp(concentration * np.cos(angles) - abs(concentration))


@spherical_laws.register("cauchy")
def cauchy(angles: Angles, d: int, radius: float = 0.1) -> Values:
    r"""The Poisson kernel $\propto |x - rp|^{-d}$, a wrapped Cauchy law for d = 2.

    Examples:
        >>> from meanfield.spherical.laws import cauchy
        >>> print(cauchy(np.array([0.0]), 2, 0.5))  # (1 - r²)/(1 - r)²
        [3.]
    """
    if not -1 < radius < 1:
        raise InvalidInputError(
            f"The radius of `cauchy` must be in (-1, 1); got {radius}."
        )
    squares = 1 - 2 * radius * np.cos(angles) + radius**2
    return (1 - radius**2) / squares ** (d / 2)


@spherical_laws.register("harmonics")
def harmonics(angles: Angles, d: int, *coefficients: float) -> Values:
    r"""The density $1 + \sum_k a_k P_k(\cos\theta)$ for coefficients $a_1, a_2, …$.

    $P_k$ is the Gegenbauer polynomial with $P_k(1) = 1$; on the circle it is
    $\cos k\theta$.

    Examples:
        >>> from meanfield.spherical.laws import harmonics
        >>> print(harmonics(np.array([0.0, np.pi]), 3, 0.3, 0.0, 0.2))
        [1.5 0.5]
    """
    cosines = np.cos(angles)
    terms = [
        a * normalised_gegenbauer(k, d, cosines)
        for k, a in enumerate(coefficients, start=1)
    ]
    return 1 + sum(terms, np.zeros_like(angles))


def spherical_law(text: str, d: int) -> Callable[[Angles], Values]:
    """The density `NAME`, or `NAME:NUMBERS`, as a function of the angle.

    Raises:
        InvalidInputError: if a number is invalid.
        UnknownNameError: if there is no such density.

    Examples:
        >>> from meanfield.spherical.laws import spherical_law
        >>> print(spherical_law("harmonics:0.5", 2)(np.array([0.0, np.pi])))
        [1.5 0.5]
    """
    name, *numbers = text.split(":")
    law = spherical_laws[name]
    try:
        values = [float(number) for number in numbers]
        law(np.zeros(1), d, *values)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"The numbers of the density `{name}` are invalid; got `{text}`. Use, for "
            "example, `vmf:5` or `harmonics:0.3:0:0.2`."
        ) from error
    return lambda angles: law(angles, d, *values)
