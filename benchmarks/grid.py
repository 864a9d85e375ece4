"""Time and memory of plane flows, beside the arithmetic they cannot do without.

Run as `python benchmarks/grid.py [CELLS ...]`; prints a row for each size and variant.
The floor is the time of the matrix products of three stages of a step alone, at the
speed of one large product measured just before.
"""

import resource
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import meanfield
from meanfield.flows import cfl, flow
from meanfield.measures import Grid, Nodes
from meanfield.measures.edges import even

A = np.array([[-1.0, 0.5], [-0.3, -0.6]])
STEPS = 200
VARIANTS = ("softmax", "l2")


def normal(cells: int) -> Grid:
    """A standard normal density on so many cells along each axis."""
    density = lambda x: np.exp(-np.sum(x**2, axis=1) / 2) / (2 * np.pi)
    return Grid.from_function([even(-6, 6, cells)] * 2, density)


def product_speed(n: int = 1024) -> float:
    """Operations per second of a square matrix product in double precision."""
    a = jnp.ones((n, n))
    product = jax.jit(jnp.matmul)
    product(a, a).block_until_ready()
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        product(a, a).block_until_ready()
        times.append(time.perf_counter() - begun)
    return 2 * n**3 / min(times)


def row(cells: int, variant: str) -> str:
    """A line of the table: a flow, timed twice, since the first compiles."""
    attention = meanfield.attentions[variant](A, np.eye(2), np.eye(2))
    mu, ts = normal(cells), np.array([0.0, 1e3])
    once = lambda steps: flow(attention, mu, ts, stepping=cfl(max_steps=steps))
    begun = time.perf_counter()
    jax.block_until_ready(once(STEPS).last)
    first = time.perf_counter() - begun
    begun = time.perf_counter()
    run = once(STEPS)
    jax.block_until_ready(run.last)
    seconds = time.perf_counter() - begun
    taken = int(run.n_accepted + run.n_rejected)
    probe = run.start.probe
    nodes = probe.count if isinstance(probe, Nodes) else 0
    queries = nodes**2 if nodes else 2 * cells * (cells + 1)
    floor = 3 * 6 * queries * cells**2 / product_speed()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"{cells:>5} {variant:>8} {nodes:>5} {taken:>5} {seconds / taken:>9.4f} "
        f"{floor:>9.4f} {seconds:>8.1f} {first - seconds:>8.1f} {peak:>7.0f}"
    )


def main() -> None:
    """Prints the table."""
    jax.config.update("jax_enable_x64", True)  # noqa: FBT003
    head = "cells  variant nodes steps    s/step     floor    total  compile peak MB"
    sys.stdout.write(head + "\n")
    for cells in [int(word) for word in sys.argv[1:]] or [64, 128, 256]:
        for variant in VARIANTS:
            sys.stdout.write(row(cells, variant) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
