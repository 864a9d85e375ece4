"""Kernels of CUDA devices: interpreted on the processor, and lowered for a device."""

import operator
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from meanfield import Blocked, Dense, Points, Tokens, attentions
from meanfield.measures import Keys
from meanfield.measures.reductions import kernels
from meanfield.measures.reductions.exact import _passes
from meanfield.measures.reductions.kernels import (
    EXP2,
    KernelSide,
    Method,
    Terms,
    best_keys,
    exp2,
    is_entrywise,
    linked_sums,
)
from meanfield.runs.representations import reduction_name
from meanfield.scores import BlockLocal, Dot, Masked, causal

# On a card the same tests run the kernels themselves.
METHOD = Method(is_interpreted=jax.default_backend() == "cpu")
TOLERANCES = {np.float64: 1e-13, np.float32: 1e-6}
# Numbers of queries, keys, components and values: no multiples of a tile, one of each,
# several parts of the keys, and rows that are multiplied as matrices.
SHAPES = (
    *(
        (100, 90, 2, 3),
        (1, 1, 1, 1),
        (40, 2100, 3, 4),
        (70, 33, 8, 9),
        (33, 40, 15, 17),
    ),
    *((65, 40, 64, 65), (33, 70, 100, 5)),
)
LINKS = exp2, jnp.exp, jax.nn.sigmoid, jax.nn.relu
dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def sides(
    shape: tuple[int, ...], dtype: type
) -> tuple[KernelSide, KernelSide, jax.Array]:
    """Queries, keys and values, with positions in [0, 1]."""
    m, n, k, p = shape
    rng = np.random.default_rng(0)
    normal = lambda *s: jnp.asarray(rng.normal(size=s).astype(dtype))
    queries = KernelSide(normal(k, m) / k**0.5, normal(1, m))
    keys = KernelSide(normal(k, n), normal(1, n))
    return place(queries, rng), place(keys, rng), normal(p, n)


def place(side: KernelSide, rng: np.random.Generator) -> KernelSide:
    """A side with positions."""
    places = rng.random(side.offset.shape).astype(side.offset.dtype)
    return side._replace(position=jnp.asarray(places))


def scores(
    queries: KernelSide, keys: KernelSide, mask: Callable | None = None
) -> jax.Array:
    """Scores with keys in rows, as a matrix."""
    S = jnp.matmul(keys.vectors.T, queries.vectors, precision="highest")
    S = S + keys.offset.T + queries.offset
    if mask is None or keys.position is None:
        return S
    return jnp.where(mask(queries.position, keys.position.T), S, -jnp.inf)


def sums(
    link: Callable, queries: KernelSide, keys: KernelSide, values: jax.Array
) -> jax.Array:
    return jnp.matmul(values, link(scores(queries, keys)), precision="highest")


def assert_equal(ours: jax.Array, reference: jax.Array, dtype: type) -> None:
    scale = np.abs(reference).max() + np.finfo(dtype).tiny
    assert ours.dtype == dtype
    assert np.abs(np.asarray(ours) - reference).max() <= TOLERANCES[dtype] * scale


@dtypes
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_of_kernels_equal_matrix_products(shape: tuple, dtype: type):
    queries, keys, values = sides(shape, dtype)
    ours = linked_sums(METHOD, queries, keys, Terms(values))
    assert_equal(ours, sums(jnp.exp2, queries, keys, values), dtype)


@dtypes
@pytest.mark.parametrize("link", LINKS[1:])
def test_links_of_kernels(link: Callable, dtype: type):
    assert is_entrywise(link, np.dtype(dtype))
    queries, keys, values = sides((40, 50, 2, 3), dtype)
    ours = linked_sums(METHOD._replace(link=link), queries, keys, Terms(values))
    assert_equal(ours, sums(link, queries, keys, values), dtype)


@pytest.mark.parametrize("mask", [None, causal, BlockLocal(0.3)])
@pytest.mark.parametrize("k", [2, 20])
def test_best_keys_have_the_largest_scores(k: int, mask: Callable | None):
    queries, keys, _ = sides((40, 90, k, 1), np.float64)
    method = METHOD._replace(mask=mask)
    top, number = best_keys(method, queries, keys)
    reference = np.asarray(scores(queries, keys, mask))
    np.testing.assert_allclose(top, reference.max(axis=0), rtol=1e-13)
    has_keys = np.isfinite(top)
    np.testing.assert_array_equal(number[has_keys], reference.argmax(axis=0)[has_keys])


def use(monkeypatch: pytest.MonkeyPatch, method: Method | None) -> None:
    monkeypatch.setattr(_passes, "kernel_method", lambda: method)


def cloud(n: int, d: int) -> tuple[jax.Array, jax.Array]:
    """Tokens and log-weights; the fourth token has no weight."""
    rng = np.random.default_rng(1)
    logs = jnp.log(jnp.asarray(rng.random(n)).at[min(3, n - 1)].set(float(n == 1)))
    return jnp.asarray(rng.normal(size=(n, d))), logs


def velocities(name: str, x: jax.Array, logs: jax.Array) -> jax.Array:
    identity = jnp.eye(x.shape[1])
    mu = Points(Tokens(x, jnp.linspace(0, 1, len(x))), logs)
    base, epsilon = name.removeprefix("causal "), x.shape[1] ** 0.5
    attention = attentions[base](identity, identity, identity, epsilon=epsilon)
    if name != base:
        mask = Masked(attention.score, causal)
        attention = eqx.tree_at(lambda a: a.score, attention, mask)
    return attention.field(0.0, mu)(mu.tokens)


def derivatives(function: Callable, x: jax.Array, logs: jax.Array) -> list:
    """Values, a gradient, a derivative along a direction, and one of second order."""

    # A common shift of all tokens changes no difference between them.
    def wave(x: jax.Array, logs: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(function(x, logs) - x))

    gradient = jax.grad(wave, (0, 1))
    step = jnp.ones_like(x), jnp.zeros_like(logs)
    pairs = [jax.jvp(f, (x, logs), step) for f in (function, gradient)]
    return jax.tree.leaves(pairs)


# Far from the origin, scores are relative to the best keys.
@pytest.mark.parametrize(
    ("n", "d", "shift"), [(70, 2, 0), (1, 1, 0), (50, 3, 1e3), (40, 20, 0)]
)
@pytest.mark.parametrize("name", ["softmax", "l2", "causal softmax", "causal sigmoid"])
def test_velocities_of_kernels_and_their_derivatives(
    monkeypatch: pytest.MonkeyPatch, name: str, n: int, d: int, shift: float
):
    x, logs = cloud(n, d)
    x = x + shift if name == "l2" or not shift else 30 * x
    results = []
    for method in (METHOD, None):
        use(monkeypatch, method)
        program = jax.jit(
            lambda x, logs: derivatives(partial(velocities, name), x, logs)
        )
        results.append(program(x, logs))
    for ours, reference in zip(*results, strict=True):
        scale = max(np.abs(reference).max(), 1)
        assert np.abs(ours - reference).max() <= 1e-10 * scale


def energy(name: str, x: jax.Array, logs: jax.Array) -> jax.Array:
    return jnp.sum(velocities(name, x, logs) ** 2)


@pytest.mark.slow
def test_batches_of_small_clouds(monkeypatch: pytest.MonkeyPatch):
    x, logs = cloud(120, 8)
    x, logs = x.reshape(2, 2, 30, 8), logs.reshape(2, 2, 30)
    results = []
    for method in (METHOD, None):
        use(monkeypatch, method)
        program = jax.value_and_grad(partial(energy, "softmax"))
        results.append(jax.jit(jax.vmap(jax.vmap(program)))(x, logs))
    for ours, reference in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-11)


@pytest.mark.parametrize("method", [METHOD, None])
@pytest.mark.parametrize("d", [2, 6])
def test_log_weights_may_be_more_precise_than_tokens(
    monkeypatch: pytest.MonkeyPatch, d: int, method: Method | None
):
    """Also under a mask, far from the origin, where scores are relative to keys."""
    use(monkeypatch, method)
    x, logs = cloud(30, d)
    tokens = Tokens(30 * x.astype(np.float32), jnp.linspace(0, 1, 30))
    identity = jnp.eye(d, dtype=np.float32)
    score, keys = Masked(Dot(identity, identity), causal), Keys(tokens, logs, x)
    means, _ = jax.jit(lambda keys: Blocked().log_mean(score, keys.tokens, keys))(keys)
    assert means.dtype == np.float64
    np.testing.assert_allclose(
        means, Dense().log_mean(score, tokens, keys)[0], rtol=1e-4
    )


@pytest.mark.parametrize("name", ["softmax", "causal softmax", "causal sigmoid"])
def test_programs_for_any_device_run_on_a_processor(
    monkeypatch: pytest.MonkeyPatch, name: str
):
    """Where JAX chooses between kernels and blocks, as on a machine with a card."""
    x, logs = cloud(40, 2)
    results = []
    for method in (Method(), None):
        use(monkeypatch, method)
        program = jax.jit(jax.value_and_grad(partial(energy, name), (0, 1)))
        with jax.default_device(jax.devices("cpu")[0]):
            results.append(program(x, logs))
    for ours, reference in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-12, atol=1e-14)


ONE = jnp.ones((1, 1))


@pytest.mark.parametrize(
    "link",
    [jnp.cumsum, jnp.sort, jnp.copy, jnp.signbit, jnp.float32, lambda s: s + ONE],
)
def test_functions_that_need_other_numbers_are_not_entrywise(link: Callable):
    assert not is_entrywise(link, np.dtype(np.float64))


def test_values_with_many_components_are_streamed(monkeypatch: pytest.MonkeyPatch):
    """Their kernel would need more registers than a thread has."""
    use(monkeypatch, METHOD)
    x, logs = cloud(12, 2)
    values = jnp.asarray(np.random.default_rng(3).normal(size=(12, 200)))
    keys = Keys(Tokens(x), logs, values)
    score = Dot(jnp.eye(2), jnp.eye(2))
    means = [how.log_mean(score, Tokens(x), keys)[0] for how in (Blocked(), Dense())]
    np.testing.assert_allclose(*means, rtol=1e-12)


class Near(eqx.Module):
    """Mask by which a token sees the tokens within a learnable radius."""

    radius: jax.Array

    def __call__(self, query: jax.Array, key: jax.Array) -> jax.Array:
        return jnp.abs(query - key) < self.radius


def test_masks_with_arrays_are_streamed(monkeypatch: pytest.MonkeyPatch):
    """A kernel could not capture the array."""
    use(monkeypatch, METHOD)
    x, logs = cloud(20, 2)
    tokens = Tokens(x, jnp.linspace(0, 1, 20))
    score = Masked(Dot(jnp.eye(2), jnp.eye(2)), Near(jnp.asarray(0.3)))
    means = [
        how.log_mean(score, tokens, Keys(tokens, logs, x))[0]
        for how in (Blocked(), Dense())
    ]
    np.testing.assert_allclose(*means, rtol=1e-12)


TRITON = "__gpu$xla.gpu.triton"
# Later versions of JAX lower kernels for the device that they find only.
lowers_without_device = pytest.mark.skipif(
    not jax.__version__.startswith("0.10.") and jax.default_backend() == "cpu",
    reason="JAX lowers kernels on a machine with a CUDA device",
)


@lowers_without_device
@dtypes
@pytest.mark.parametrize("name", ["softmax", "causal softmax", "causal sigmoid"])
@pytest.mark.parametrize(("n", "d"), [(3000, 2), (300, 64)])
def test_kernels_are_lowered_for_cuda_devices(
    monkeypatch: pytest.MonkeyPatch, name: str, n: int, d: int, dtype: type
):
    use(monkeypatch, Method())
    arrays = jax.ShapeDtypeStruct((n, d), dtype), jax.ShapeDtypeStruct((n,), dtype)
    traced = jax.jit(jax.grad(partial(energy, name), (0, 1))).trace(*arrays)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    # Best keys, for softmax; sums; and the gradients for queries and for keys.
    assert text.count(TRITON) >= 3
    assert TRITON not in traced.lower(lowering_platforms=("cpu",)).as_text()


@pytest.mark.slow
@lowers_without_device
def test_nested_batches_are_one_launch(monkeypatch: pytest.MonkeyPatch):
    """A device has three axes of programs, and kernels may be mapped more often."""
    use(monkeypatch, Method())
    program = partial(velocities, "softmax")
    for _ in range(4):
        program = jax.vmap(program)
    arrays = jnp.zeros((2, 3, 2, 2, 20, 8)), jnp.zeros((2, 3, 2, 2, 20))
    text = jax.jit(program).trace(*arrays).lower(lowering_platforms=("cuda",)).as_text()
    assert "grid_x = 24 : i32, grid_y = 1 : i32, grid_z = 1 : i32" in text


def test_reports_say_that_kernels_compute_the_sums(monkeypatch: pytest.MonkeyPatch):
    assert reduction_name(Blocked()) == "blocked"
    use(monkeypatch, Method())
    assert reduction_name(Blocked()) == "blocked, by kernels where possible"
    assert reduction_name(Blocked(64)) == "blocked:64"


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="there is a device")
def test_kernels_are_off_without_a_cuda_device():
    assert _passes.kernel_method() is None


def test_the_first_kernels_run_while_a_program_is_traced():
    """A run calls them inside `jit`; they must not become a part of its program."""
    methods = []

    @jax.jit
    def program(x: jax.Array) -> jax.Array:
        methods.append(kernels.checked_method(METHOD))
        return x

    jax.vmap(program)(jnp.ones(3))
    assert methods == [METHOD]


@pytest.mark.parametrize(
    ("error", "text"), [(RuntimeError("no card"), "no card"), (None, "sums are wrong")]
)
def test_kernels_that_fail_are_replaced_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, text: str
):
    """As on a device that Triton does not know, or whose first kernel goes wrong."""

    def fail(*_: object) -> jax.Array:
        if error is not None:
            raise error
        return jnp.zeros((3, 64))

    monkeypatch.setattr(f"{kernels.__name__}._first_kernel.linked_sums", fail)
    with pytest.warns(UserWarning, match=text):
        assert kernels.checked_method(METHOD) is None


LOW = 0xFFFFFFFF  # the lower half of 64 bits
INSTRUCTIONS: dict[str, Callable[..., Any]] = {
    "setp.lt.f64": operator.lt,
    "selp.f64": lambda a, b, condition: a if condition else b,
    "add.rn.f64": operator.add,
    "sub.rn.f64": operator.sub,
    "fma.rn.f64": lambda a, b, c: a * b + c,
    "mov.f64": lambda a: a,
    "shl.b32": lambda a, b: a << b & LOW,
    "add.s32": lambda a, b: a + b & LOW,
    "mov.b64": lambda low, high: np.uint64(high << 32 | low).view(np.float64),
}


def run_ptx(assembly: str, x: float) -> float:
    """Executes the instructions of `exp2` in double precision, one after another."""
    values: dict[str, Any] = {"$1": np.float64(x)}

    def read(name: str) -> Any:
        if name.startswith("0d"):
            return np.uint64(int(name[2:], 16)).view(np.float64)
        return values[name] if name in values else int(name)

    for line in assembly.strip("{} ").split(";"):
        operation, *names = re.split(r"[\s,{}]+", line.strip().rstrip("}"))
        if operation == "mov.b64" and names[-1] in ("w", "p"):
            bits = int(read(names[-1]).view(np.uint64))
            values[names[-3]], values[names[-2]] = bits & LOW, bits >> 32
        elif operation in INSTRUCTIONS:
            arguments = [read(name) for name in names[1:] if name]
            values[names[0]] = INSTRUCTIONS[operation](*arguments)
    return float(values["$0"])


def test_the_instructions_of_powers_of_two_are_right():
    """A card has never run them here, so the text itself is executed."""
    x = np.concatenate([np.linspace(-1021, 1023, 2000), np.arange(-3.0, 4.0)])
    powers = np.array([run_ptx(EXP2[8], value) for value in x])
    np.testing.assert_allclose(powers, np.exp2(x), rtol=4 * np.finfo(float).eps)
    assert 0 < run_ptx(EXP2[8], -np.inf) <= np.finfo(float).tiny
    assert np.isnan(run_ptx(EXP2[8], np.nan))
