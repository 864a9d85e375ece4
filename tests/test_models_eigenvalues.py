"""Eigenvalues of heads match dense matrices; their plot counts them."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.random import Generator

from meanfield.attention import attentions
from meanfield.fields import Affine
from meanfield.measures import Gaussian
from meanfield.models import HeadWeights
from meanfield.models.blocks import eigenvalues
from meanfield.plotting import draw_head_eigenvalues


def weights(rng: Generator, h: int, k: int, d: int) -> HeadWeights:
    thin = lambda: rng.normal(size=(h, k, d))
    return HeadWeights(
        **{name: thin() for name in ("Q", "K", "value_projection")},
        **{f"{name}_bias": np.zeros((h, k)) for name in ("query", "key", "value")},
        output_projection=rng.normal(size=(h, d, k)),
        output_bias=np.zeros((h, d)),
    )


@pytest.mark.parametrize("k", [2, 4, 7])
def test_eigenvalues_match_dense_matrices(rng: Generator, k: int) -> None:
    d = 7
    w = weights(rng, 2, k, d)
    actual = eigenvalues(w)
    for head in range(2):
        B = w.K[head].T @ w.Q[head] / np.sqrt(k)
        V = w.output_projection[head] @ w.value_projection[head]
        score = np.linalg.eigvalsh((B + B.T) / 2)
        largest = np.sort(score[np.argsort(-np.abs(score))[: min(2 * k, d)]])
        np.testing.assert_allclose(actual.score[head], largest, atol=1e-12)
        for values, matrix in ((actual.value, V), (actual.product, V @ B)):
            dense = np.linalg.eigvals(matrix)
            nonzero = dense[np.argsort(-np.abs(dense))[:k]]
            order = lambda z: z[np.lexsort((np.round(z.imag, 8), np.round(z.real, 8)))]
            np.testing.assert_allclose(order(values[head]), order(nonzero), atol=1e-10)


def test_signs_of_real_parts_are_not_those_of_the_change_of_covariances() -> None:
    r"""$M = -I + 4 e_1 e_2^\top$ contracts, though $M + M^\top$ grows in one direction.

    The size of the factor in the flow of a standard Gaussian under one head shows it.
    """
    M = np.array([[-1.0, 4.0], [0.0, -1.0]])
    identity = np.eye(2)[None]
    head = {
        "Q": M[None],
        "K": identity,
        "value_projection": identity,
        "output_projection": identity,
    }
    zero = np.zeros((1, 2))
    biases = ("query_bias", "key_bias", "value_bias", "output_bias")
    actual = eigenvalues(HeadWeights(**head, **dict.fromkeys(biases, zero)))
    product = np.real(actual.product) * np.sqrt(2)  # of ε
    np.testing.assert_allclose(product, -1.0, atol=1e-7)  # √ of rounding: defective
    mu = Gaussian.from_moments(np.zeros(2), np.eye(2))
    field = attentions["softmax"](M, np.eye(2), np.eye(2)).field(0.0, mu)
    assert isinstance(field, Affine)
    rate = np.asarray(field.linear + field.linear.T)
    np.testing.assert_allclose(np.linalg.eigvalsh(rate), [-6.0, 2.0], atol=1e-12)


def texts_of(figure: Figure, row: int) -> list[str]:
    return [text.get_text() for text in figure.axes[row].texts if type(text) is Text]


def test_the_picture_counts_signs_and_weighs_those_of_scores() -> None:
    dims, plain = ("layer", "head", "index"), [[[1.0, 3.0, -4.0]], [[2.0, 1.0, 0.0]]]
    score = xr.DataArray([[[1.0, -3.0]], [[2.0, 2.0]]], dims=("layer", "head", "m"))
    numbers = xr.DataArray(np.array(plain, dtype=complex), dims=dims)
    turning = numbers + xr.DataArray([1j, 0, 0], dims="index")
    data = xr.Dataset({"score": score, "value": numbers, "product": turning})
    figure = draw_head_eigenvalues(data)
    assert texts_of(figure, 0) == ["25 %", "75 %", "100 %", "0 %"]
    assert texts_of(figure, 1) == ["2", "1", "2", "0"]
    print_ = figure.get_supxlabel().replace("\n", " ")
    assert "33 % of the λ of VA are not real" in print_
    assert "M + Mᵀ, whose signs are not those of Re λ" in print_
    marks = [len(c.get_paths()) for c in figure.axes[0].collections]
    assert marks == [3, 1]
