"""Parameters of the covariance figures of castin2025, from the authors' scripts."""

from collections.abc import Mapping
from typing import Any

import numpy as np

SEED = 0

P1_Q = [
    [0.45805494822409054, 0.30834960696491165],
    [0.23148704503556228, 0.2774245517561259],
]
P1_V = [
    [2.6693776102802937, -0.6915301722052816],
    [-0.6915301722052816, 2.6874461223198938],
]
P2_Q = [[0.4063236466758838, 0.913729223649989]]
P3_Q = [
    [0.6764132657544725, 1.5210991859339182],
    [-0.5118762450490144, 1.150194635377595],
]
P3_K = [
    [-0.5907168066359194, -0.7687652516461853],
    [-0.33500916605030867, 0.09299944353450965],
]
P3_V = [
    [-0.3488944509894251, 0.9837034333517989],
    [0.5809228307171408, 0.07028444085744995],
]
P4_Q = [
    [-0.09678415830991538, 0.42220166048145347],
    [-0.22546156340099752, -0.6379430932117882],
]
P4_K = [
    [-0.016286303695742424, 1.0442167783791647],
    [-1.0848803286340662, -2.2059248271588077],
]
P5_V = [
    [1.8317530059587854, -0.37688784393619434],
    [0.34811234158600607, -0.11628155656536983],
]

IDENTITY = [[1.0, 0.0], [0.0, 1.0]]


def negative(matrix: list[list[float]]) -> list[list[float]]:
    """Negative of a matrix, as nested lists."""
    return [[-entry for entry in row] for row in matrix]


def scaled(matrix: list[list[float]], factor: float) -> list[list[float]]:
    """Product of a matrix and a number, as nested lists."""
    return [[factor * entry for entry in row] for row in matrix]


P1: dict[str, Any] = {"Q": P1_Q, "K": negative(P1_Q), "V": P1_V}
P2: dict[str, Any] = {"Q": P2_Q, "K": negative(P2_Q), "V": IDENTITY}
P3: dict[str, Any] = {"Q": P3_Q, "K": P3_K, "V": P3_V}
P4: dict[str, Any] = {"Q": P4_Q, "K": P4_K, "V": IDENTITY}
P5: dict[str, Any] = {"Q": P3_Q, "K": P3_K, "V": P5_V}


def gaussian_entries(index: int = 0) -> dict[str, Any]:
    """Random Q, K and V as in the text: Q and V have i.i.d. normal entries, K = -Q.

    The script has fixed matrices instead (`P1`). The figures show draw 0, which was not
    selected among several.
    """
    draw = np.random.default_rng([SEED, index])
    Q, V = draw.standard_normal((2, 2)).tolist(), draw.standard_normal((2, 2)).tolist()
    return {"Q": Q, "K": negative(Q), "V": V}


def definite(values: Mapping[str, Any]) -> dict[str, Any]:
    r"""Keys of a spec with the positive definite matrix $VV^\top$ in place of $V$."""
    V = np.array(values["V"])
    return {**values, "V": (V @ V.T).tolist()}
