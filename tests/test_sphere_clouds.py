"""Initial tokens on spheres: their laws, and wrong numbers."""

import numpy as np
import pytest
from jaxtyping import Array
from scipy.special import i0, i1
from scipy.stats import kstest

from meanfield import runs
from meanfield.errors import InvalidInputError
from meanfield.measures.sampling import draw_cloud
from meanfield.spec import parse


def test_clouds_on_the_sphere_have_their_laws(key: Array) -> None:
    """Means of cosines against closed forms, and angles against their bounds."""
    draw = lambda name, n, d: np.asarray(draw_cloud(name, n, d, key=key))
    n = 20_000
    for d, mean in ((2, i1(4) / i0(4)), (3, 1 / np.tanh(4) - 1 / 4)):
        assert abs(draw("vmf:4", n, d)[:, 0].mean() - mean) < 5 / np.sqrt(n)
    cap = draw("caps:1:0.5", n, 3)
    centre = cap.mean(axis=0) / np.linalg.norm(cap.mean(axis=0))
    # On S^2 the heights of a cap are uniform between cos 0.5 and 1.
    heights = (cap @ centre - np.cos(0.5)) / (1 - np.cos(0.5))
    assert kstest(heights, "uniform").pvalue > 1e-3
    cosines_of = lambda x: (x @ x.T)[np.triu_indices(len(x), 1)]
    np.testing.assert_allclose(cosines_of(draw("equiangular:-0.2", 5, 6)), -0.2)
    np.testing.assert_allclose(cosines_of(draw("orthogonal", 5, 6)), 0, atol=1e-15)
    assert cosines_of(draw("poisson:0.4", 20, 3)).max() <= np.cos(0.4)
    assert np.abs(draw("polygon:3", 6, 2).sum(axis=0)).max() < 1e-14
    assert draw("antipodal:0.25", 8, 3)[:, 0].sum() == 2 - 6
    angles = np.arccos(draw("perturbed:0.01", n, 3)[:, 0])
    assert abs(np.mean(angles**2) / (2 * 0.01**2) - 1) < 0.05


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ("vmf:a", "must be written `vmf:CONCENTRATION`"),
        ("vmf:1:2", "must be written `vmf:CONCENTRATION`"),
        ("vmf:-1", "must be > 0"),
        ("orthogonal", "give d ≥ 9"),
        ("poisson:1.5", "found room for"),
        ("caps:0:1", "whole number of caps"),
        ("polygon:2.5", "must be whole"),
        ("antipodal:2", "between 0 and 1"),
        ("equiangular:2", "give d ≥ 9"),
        ("mixture:1.5", "must be whole"),
    ],
)
def test_wrong_numbers_of_clouds_are_refused_in_one_line(
    init: str, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message) as error:
        runs.member(parse({"space": "sphere", "n": 9, "init": init}))
    assert "\n" not in str(error.value)
