r"""
Where the Gaussian closure fails
================================

Softmax attention maps Gaussians to Gaussians, so that mean and covariance tell all.
Here are two ways to lose that: another attention, and another start. Each time the
density on a grid is the truth, 2 000 tokens sample it, and a Gaussian follows as well
as a Gaussian can.

* **Before it:** Gaussians and their moments, the Wasserstein distance on the line, the
  continuity equation.
* **Afterwards you can** say for which attention and which start a Gaussian tells all,
  and measure how wrong it is elsewhere.
* **Time:** 25 minutes to read and run, 60 with the exercises
  (:doc:`answers </generated/answers/answers_2_closure>`).
"""

import meanfield

meanfield.set_precision("double")

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from meanfield import Gaussian, Grid, Points, attentions, flow
from meanfield.cells import centres
from meanfield.distances import wasserstein
from meanfield.dynamics import Projected

one = jnp.eye(1)
times = np.linspace(0.0, 2.0, 9)


def bell(x, mean=0.0, deviation=1.0):
    """A normal density on the line."""
    z = (x[:, 0] - mean) / deviation
    return np.exp(-(z**2) / 2) / (deviation * np.sqrt(2 * np.pi))


# %%
# Softmax keeps Gaussians
# -----------------------
# With :math:`A = -1`, :math:`V = 1` and a standard Gaussian the variance is :math:`1/(1
# + 2t)` in closed form. The density on a grid knows nothing of this, and agrees.

softmax = attentions["softmax"](-one, one, one)
normal = Gaussian.from_moments([0.0], [[1.0]])
density = Grid.from_function([np.linspace(-9, 9, 181)], bell)
on_grid, closed = flow(softmax, density, times), flow(softmax, normal, times)
print("variance:", on_grid.final.covariance[0, 0], closed.final.covariance[0, 0], 1 / 5)

# %%
# Sigmoid does not
# ----------------
# Its weights :math:`1/(1 + e^{-s})` are no exponentials. `Projected` moves a Gaussian
# by the affine field that is closest in :math:`L^2(\mu)`: the best that a Gaussian can
# do at each instant, which is not the truth later on. We start away from the origin,
# where sigmoid bends most.

sigmoid = attentions["sigmoid"](3 * one, one, one)
shifted = Gaussian.from_moments([0.5], [[1.0]])
rng = np.random.default_rng(0)
starts = {
    "density": Grid.from_function([np.linspace(-8, 9, 201)], lambda x: bell(x, 0.5)),
    "tokens": Points.uniform(0.5 + rng.normal(size=(2000, 1))),
    "projected": shifted,
}
laws = {"density": sigmoid, "tokens": sigmoid, "projected": Projected(sigmoid)}
runs = {name: flow(laws[name], start, times) for name, start in starts.items()}
print({name: str(run.status) for name, run in runs.items()})

# %%
# Distances between the three over time, exact on the line by quantile functions. Tokens
# begin at their sampling error, which the flow magnifies as it tears the bump in two; a
# Gaussian cannot be torn, and is off by four times as much in the end.


def gaps(name):
    """The Wasserstein distance to the density at each time, over its spread."""
    pairs = [(runs[name].frame(i), runs["density"].frame(i)) for i in range(len(times))]
    spreads = [np.sqrt(float(truth.covariance[0, 0])) for _, truth in pairs]
    return [
        wasserstein(mu, truth).value / s
        for (mu, truth), s in zip(pairs, spreads, strict=True)
    ]


def drawn(axes, frame):
    """Three representations at one time, as densities."""
    grid, cloud, closure = (
        runs[name].frame(frame) for name in ("density", "tokens", "projected")
    )
    xi = centres(np.asarray(grid.edges[0]))
    x = np.asarray(grid.state.origin)[0] + np.asarray(grid.state.axes)[0, 0] * xi
    axes.hist(
        np.asarray(cloud.tokens.x)[:, 0],
        bins=60,
        density=True,
        color="#d9d9d9",
        label="tokens",
    )
    axes.plot(x, np.asarray(grid.density), color="#0072B2", label="density")
    deviation = float(closure.covariance[0, 0]) ** 0.5
    middle = float(closure.mean[0])
    axes.plot(
        x,
        bell(x[:, None], middle, deviation),
        "--",
        color="#D55E00",
        label="projected",
    )
    ends = (middle - 3.5 * deviation, middle + 3.5 * deviation)
    axes.set(title=f"t = {times[frame]:g}", xlabel="x", xlim=ends, yticks=[])


figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
drawn(axes[0], 2)
drawn(axes[1], len(times) - 1)
axes[1].legend(frameon=False)
for name, colour in (("tokens", "#8a8a8a"), ("projected", "#D55E00")):
    axes[2].semilogy(times[1:], gaps(name)[1:], "o-", color=colour, label=name)
axes[2].set(title="distance to the density", xlabel="t")
axes[2].legend(frameon=False)
plt.show()

# %%
# *What one sees:* the density (blue) has grown a shoulder at :math:`t = 0.5` and is in
# two parts at :math:`t = 2`. The tokens (grey) follow it into both; the Gaussian
# (dashed) covers both with one bump, and puts mass into the gap between them.
#
# Another start
# -------------
# Softmax keeps Gaussians Gaussian, and nothing else. From two bumps the Gaussian of the
# same moments is wrong from the first instant: softmax weights see exponential moments,
# not two.

bumps = lambda x: (bell(x, -1.5, 0.5) + bell(x, 1.5, 0.5)) / 2
plus = attentions["softmax"](one, one, -one)
truth = flow(plus, Grid.from_function([np.linspace(-6, 6, 241)], bumps), times)
start = truth.frame(0)
moments = flow(plus, Gaussian.from_moments(start.mean, start.covariance), times)
for i in (0, 2, 4, 8):
    pair = truth.frame(i).covariance[0, 0], moments.frame(i).covariance[0, 0]
    print(f"t = {times[i]:<5g} variance {pair[0]:.4f}, of the closure {pair[1]:.4f}")

# %%
# Exercises
# ---------
# 1. For a standard Gaussian and sigmoid scores :math:`s = axy`, write the rate
#    :math:`Y'` of the factor as an expectation and expand it in :math:`a`. To which
#    order does it agree with a quarter of that of ``linear`` attention, and why?
# 2. Show that the closure of two symmetric bumps under softmax has the right variance
#    to first order in :math:`\epsilon^{-1}`. Check it by plotting both variances for
#    ``epsilon`` = 1, 4, 16.
# 3. Tokens err by sampling like :math:`1/\sqrt n`. How many does it take to see the
#    error of the closure at :math:`t = 0.5` above? Use ``meanfield compare --attention
#    sigmoid`` to find out.
# 4. Add ``noise=Isotropic(0.2)`` to all three flows. Is the closure better or worse,
#    and why?
