"""Networks, specs and points shared by tests of training."""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from meanfield._folders import templates
from meanfield.measures import Dense, Points
from meanfield.training import Recipe, TrainSpec, Variant

D, WIDTH, N = 6, 4, 8
Weights = dict[str, Array]
VARIANTS = {
    "softmax": Variant("softmax"),
    "sinkhorn": Variant("sinkhorn", {"iterations": 5}),
    "esp-soft": Variant("esp-soft", {"slices": 3, "tau": 0.1}),
    "sparse-sinkhorn": Variant("sparse-sinkhorn", {"blocks": 2}),
    "differential": Variant("differential", {"lambda_": 0.5}),
}
PAIRS = "pairs of tests"
PROJECTIONS = "value_projection", "output_projection"
RECIPE = Recipe(epochs=3, batch_size=20, learning_rate=3e-3, milestones=(3,))


@functools.cache
def make_pairs_task() -> type[Any]:
    """The task of the template, under a name that no plugin of a test uses."""
    text = templates()["task"].read_text().replace('"pairs"', f'"{PAIRS}"')
    module = ModuleType("pairs_of_tests")
    sys.modules[module.__name__] = module  # a dataclass needs it
    exec(text, module.__dict__)
    return module.Pairs


def spec(name: str = "softmax", **changes: Any) -> TrainSpec:
    make_pairs_task()
    keys = {"recipe": RECIPE, "seeds": (0, 1), "options": {"count": 200}}
    return TrainSpec(PAIRS, **{"variant": VARIANTS[name], **keys, **changes})


def points(rng: np.random.Generator, n: int = N) -> Points:
    x = rng.normal(size=(n, D))
    return Points.uniform(x, position=np.arange(1, n + 1) / n, reduction=Dense())


def map_trained(part: Any, change: Callable[[Array], Array]) -> Any:
    return jax.tree.map(lambda a: change(a) if eqx.is_inexact_array(a) else a, part)


to_double = lambda part: map_trained(part, lambda a: a.astype(jnp.float64))
to_single = lambda part: map_trained(part, lambda a: a.astype(jnp.float32))
