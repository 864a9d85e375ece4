"""Double precision, no silent broadcasting, seeded randomness; warnings are errors."""

import jax
import numpy as np
import pytest
from jaxtyping import Array, Key

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20250921)


@pytest.fixture
def key() -> Key[Array, ""]:
    return jax.random.key(20250921)
