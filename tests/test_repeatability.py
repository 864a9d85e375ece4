"""The same bytes for any uninitialised memory and machine load."""

import ctypes
import sys
from subprocess import CalledProcessError

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from repeatability import KINDS, count_digests

from meanfield import Grid, attentions, flow

FILL = -6  # M_PERTURB of the C library's mallopt
linux = pytest.mark.skipif(sys.platform != "linux", reason="glibc fills its memory")


@pytest.mark.slow
@linux
def test_grid_runs_do_not_depend_on_uninitialised_memory():
    # 64 x 64 cells: from 4 096 rows on the compiler joins products with what follows.
    along = np.linspace(-4, 4, 65)
    bump = lambda x: np.exp(-np.sum(x**2, axis=1) / 2) / (2 * np.pi)
    density = Grid.from_function([along, along], bump)
    attention = attentions["softmax"](2 * jnp.eye(2), jnp.eye(2), -jnp.eye(2))
    allocator, ends = ctypes.CDLL(None), []
    try:
        for fill in (0, 1, 170):
            allocator.mallopt(FILL, fill)
            last = flow(attention, density, jnp.array([0.0, 0.01])).last
            ends.append([np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(last)])
    finally:
        allocator.mallopt(FILL, 0)
    assert ends[0] == ends[1] == ends[2]


def test_failed_runs_do_not_count_as_repetitions():
    with pytest.raises(CalledProcessError):
        count_digests("--no-such-option", [0])


@linux
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_stores_the_same_bytes_each_time(kind: str):
    assert len(count_digests(KINDS[kind], [0, 1, 85, 170, 255])) == 1
