"""Random test cases, and a comparison whose tolerance follows the dtype."""

import json
import os
import string
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
from reference import Parameters

from meanfield._typing import Numbers
from meanfield.attention import Attention, attentions
from meanfield.measures import (
    AbstractReduction,
    Blocked,
    Chebyshev,
    Dense,
    Gaussian,
    Points,
)
from meanfield.reproduce import Experiment, Findings
from meanfield.tokens import Tokens

# The reduction of tests that accept any: `make test-reductions` runs all of them.
REDUCTIONS = {
    "dense": Dense(),
    "blocked": Blocked(),
    "blocked:3": Blocked(3),
    "chebyshev": Chebyshev(1e-14),
}
REDUCTION = REDUCTIONS[os.environ.get("MEANFIELD_TEST_REDUCTION", "dense")]


def assert_close(
    actual: Numbers, expected: Numbers, *, ulps: float = 100, scale: float = 0.0
) -> None:
    """Sup-norm agreement to `ulps` rounding errors of the larger of the two.

    The unit is the coarser dtype's `eps` times the size of `expected` (at least
    `scale`, for sums that cancel); 100 covers the reductions of these small cases.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{actual.shape} != {expected.shape}"
    eps = max(np.finfo(a.dtype).eps for a in (actual, expected) if a.dtype.kind == "f")
    size = max(float(np.max(np.abs(expected), initial=0)), scale)
    gap = float(np.max(np.abs(actual - expected), initial=0))
    assert gap <= ulps * eps * size, f"gap {gap:.3g}, allowed {ulps * eps * size:.3g}"


@dataclass(frozen=True)
class Case:
    """Parameters and tokens in double precision NumPy, converted to JAX on request."""

    p: Parameters
    x: np.ndarray
    w: np.ndarray
    probes: np.ndarray
    dtype: type = field(default=np.float64)

    @property
    def d(self) -> int:
        return self.x.shape[1]

    def attention(self, name: str, **options: object) -> Attention:
        p = self.p
        cast = lambda a: jnp.asarray(a, self.dtype)
        make = attentions[name]
        return make(cast(p.Q), cast(p.K), cast(p.V), epsilon=p.epsilon, **options)

    def points(self, reduction: AbstractReduction = REDUCTION) -> Points:
        x, w = jnp.asarray(self.x, self.dtype), jnp.asarray(self.w, self.dtype)
        position = jnp.linspace(0, 1, len(self.x), dtype=self.dtype)
        return Points.weighted(x, w, position=position, reduction=reduction)

    def queries(self) -> Tokens:
        return Tokens(jnp.asarray(self.probes, self.dtype))


def parameters(
    rng: np.random.Generator, d: int, k: int | None = None, *, epsilon: float = 0.8
) -> Parameters:
    """Random matrices whose scores of unit tokens are of order one."""
    k = d if k is None else k
    Q, K = rng.normal(size=(2, k, d)) / np.sqrt(d)
    return Parameters(Q, K, rng.normal(size=(d, d)) / np.sqrt(d), epsilon)


def tokens(
    rng: np.random.Generator, n: int, d: int, m: int = 5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States, unequal weights that sum to one, and probe points."""
    w = rng.uniform(0.2, 1.8, size=n)
    return rng.normal(size=(n, d)), w / w.sum(), rng.normal(size=(m, d))


def case(
    rng: np.random.Generator,
    n: int = 7,
    d: int = 3,
    k: int | None = None,
    *,
    epsilon: float = 0.8,
    dtype: type = np.float64,
) -> Case:
    p = parameters(rng, d, k, epsilon=epsilon)
    x, w, probes = tokens(rng, n, d)
    return Case(p, x, w, probes, dtype)


def _equal_tokens(rng: np.random.Generator) -> Case:
    c = case(rng, n=6)
    return Case(c.p, np.repeat(c.x[:3], 2, axis=0), c.w, c.probes)


def _tokens_at_origin(rng: np.random.Generator) -> Case:
    c = case(rng, n=4)
    return Case(c.p, np.zeros_like(c.x), c.w, c.probes)


def _rank_one_scores(rng: np.random.Generator) -> Case:
    return case(rng, n=6, k=1)


def _zero_scores(rng: np.random.Generator) -> Case:
    c = case(rng)
    p = Parameters(0 * c.p.Q, c.p.K, c.p.V, c.p.epsilon)
    return Case(p, c.x, c.w, c.probes)


def _lopsided_weights(rng: np.random.Generator) -> Case:
    c = case(rng)
    w = 10.0 ** -np.arange(7)
    return Case(c.p, c.x, w / w.sum(), c.probes)


# Cases where formulas of attention are known to break.
CASES = {
    "unequal weights": case,
    "one token": lambda rng: case(rng, n=1),
    "one dimension": lambda rng: case(rng, d=1),
    "one token, one dimension": lambda rng: case(rng, n=1, d=1),
    "k below d": lambda rng: case(rng, d=4, k=2),
    "k above d": lambda rng: case(rng, d=2, k=5),
    "rank-one scores": _rank_one_scores,
    "zero scores": _zero_scores,
    "equal tokens": _equal_tokens,
    "all at the origin": _tokens_at_origin,
    "weights over six decades": _lopsided_weights,
    "small epsilon": lambda rng: case(rng, epsilon=0.15),
}


def orthogonal(rng: np.random.Generator, d: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def gaussian(
    rng: np.random.Generator, d: int, r: int | None = None, *, mean: bool = True
) -> Gaussian:
    """A Gaussian of any rank, with a factor that is not symmetric."""
    Y = rng.normal(size=(d, d if r is None else r)) / np.sqrt(d)
    alpha = rng.normal(size=d) if mean else np.zeros(d)
    return Gaussian(jnp.asarray(alpha), jnp.asarray(Y))


def small_scores(
    rng: np.random.Generator, d: int, factor: np.ndarray, *, k: int | None = None
) -> Parameters:
    r"""Random parameters with $|Y^\top A Y|, |Y^\top B Y| \le 1/4$, also for L2."""
    p = parameters(rng, d, k, epsilon=0.7)
    # For L2, A doubles and B = 2 K'K / epsilon: four norms, one bound each.
    sizes = [np.linalg.norm(M @ factor, 2) ** 2 for M in (p.Q, p.K)]
    shrink = [np.sqrt(0.125 * p.epsilon / size) for size in sizes]
    return Parameters(p.Q * shrink[0], p.K * shrink[1], p.V, p.epsilon)


def assert_reportable(experiment: Experiment, findings: Findings) -> None:
    """Findings are JSON and repeatable; captions contain no other numbers."""
    literals = [text for text, *_ in string.Formatter().parse(experiment.caption)]
    words = " ".join(literals).replace("L2", "")  # a name, not a number
    assert not any(character.isdecimal() for character in words)
    assert json.loads(json.dumps(findings.numbers)) == findings.numbers
    assert json.loads(json.dumps(findings.spec)) == findings.spec
    assert "seed" in findings.spec
    assert "nan" not in experiment.texts(findings.numbers)["caption"]
    assert "nan" not in str(experiment.texts(findings.numbers)["table"])
