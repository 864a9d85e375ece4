r"""
Clusters on a sphere, and when they meet
========================================

Layer norms keep tokens on a sphere. There softmax attention gathers them in clusters,
and the clusters meet as well, but at times such as :math:`10^{70}`. We watch the
clusters form, compute when two of them meet, climb the whole staircase, and end at zero
temperature, where each token follows one other.

* **Before it:** differential equations, integrals; nothing about transformers.
* **Afterwards you can** say how long a clustered state lasts, and compute with times
  that no step in time can reach.
* **Time:** 15 minutes to read and run, 45 with the exercises
  (:doc:`answers </generated/answers/answers_4_sphere>`).
"""

import meanfield

meanfield.set_precision("double")

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import quad

from meanfield import Points, attentions, flow
from meanfield.clusters import cosine_counts
from meanfield.flows import arclength
from meanfield.spaces import Sphere


def on_circle(angles):
    """Tokens of equal weight on the unit circle."""
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return Points.uniform(x, space=Sphere())


def softmax(beta):
    """Softmax attention with Q = K = V = I at inverse temperature β."""
    return attentions["softmax"](A=1.0, V=1.0, d=2, epsilon=1 / beta)


# %%
# Clusters form
# -------------
# On the sphere the velocity is projected onto the tangent,
# :math:`x_i' = P_{x_i}\sum_j \kappa_{ij} x_j`, with weights :math:`\kappa_{ij} \propto
# e^{\beta x_i\cdot x_j}`. Forty tokens on the circle, at random angles:

angles = np.random.default_rng(3).uniform(-np.pi, np.pi, 40)
times = np.linspace(0.0, 15.0, 151)
run = flow(softmax(9.0), on_circle(angles), times)
x = np.asarray(run.map(lambda mu: mu.tokens.x))
counts = cosine_counts(x, np.full(40, 1 / 40), 1e-3).counts
print(int(counts[-1]), "clusters at t =", times[-1])

figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
paths = np.unwrap(np.arctan2(x[..., 1], x[..., 0]), axis=0)
axes[0].plot(times, paths, color="#0072b2", linewidth=0.7)
axes[0].set(xlabel="t", ylabel="angle")
axes[1].step(times, counts)
axes[1].set(xlabel="t", title="clusters", ylim=(0, None))
plt.show()

# %%
# *What one sees:* within a few units of time the tokens gather in three clusters (the
# lines at the top and at the bottom are one place). Then nothing seems to happen.
#
# When two tokens meet
# --------------------
# Two tokens of equal weight at the angle :math:`\theta` obey
#
# .. math:: \theta' = -\frac{2\sin\theta}{1 + e^{\beta(1 - \cos\theta)}},
#
# so they need the time :math:`\int (1 + e^{\beta(1 - \cos\theta)}) / (2\sin\theta)\,
# d\theta`. From a right angle that is about :math:`e^\beta/(2\beta)`: at
# :math:`\beta = 300` it is :math:`10^{127}`, and velocities are :math:`10^{-130}`.
# Steps in time are lost there. Steps in arclength, with the time as a logarithm and
# velocities as directions and logarithms, are not. Tokens closer than :math:`10^{-7}`
# become one, and the flow says when.


def log_time(beta, begin=np.pi / 2, end=1e-7):
    """The logarithm of the time from one angle to another, by quadrature."""
    largest = beta * (1 - np.cos(begin))

    def slowness(angle):
        exponents = np.array([0.0, beta * (1 - np.cos(angle))]) - largest
        return np.exp(exponents).sum() / (2 * np.sin(angle))

    points = [1e-5, 1e-3, 0.1]
    time, _ = quad(slowness, end, begin, points=points, epsrel=1e-12, limit=500)
    return largest + np.log(time)


for beta in (10.0, 100.0, 300.0):
    expected = log_time(beta)
    pair = on_circle(np.array([0.0, np.pi / 2]))
    times = [0.0, np.exp(expected + 1)]
    met = np.log(flow(softmax(beta), pair, times, stepping=arclength()).merges[0, 0])
    print(f"β = {beta:g}: log t = {met:.8f}, by quadrature {expected:.8f}")

# %%
# The staircase
# -------------
# Five tokens, closer on the left than on the right, at :math:`\beta = 500`. Tokens that
# meet become one, and the flow says when, and how heavy. The energy
# :math:`\frac{1}{n^2}\sum_{ij} e^{\beta(x_i\cdot x_j - 1)}` stands still between two
# meetings: on each step of the staircase the state looks like a limit.

beta = 500.0
places = np.array([0.0, 0.5, 2.0, 4.0, 7.0]) / 2 * np.log(2000) / np.sqrt(2000)
times = np.concatenate([[0.0], np.logspace(-3, 18, 400)])
stairs = flow(softmax(beta), on_circle(places), times, stepping=arclength())
for time, _, _, weight in np.asarray(stairs.merges):
    print(f"t = {time:.4g}: a cluster of weight {weight:.1f}")

x = np.asarray(stairs.map(lambda mu: mu.tokens.x))
gram = x @ np.swapaxes(x, 1, 2)
energies = np.exp(beta * (gram - 1)).mean(axis=(1, 2))
figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
axes.semilogx(times[1:], energies[1:])
axes.set(xlabel="t", ylabel="energy", ylim=(0, 1.05))
plt.show()

# %%
# *What one sees:* four steps, at times from 14 to :math:`3\cdot 10^{15}`. The plateaus
# are sums of squared weights of clusters, such as :math:`0.4^2 + 3\cdot 0.2^2 = 0.28`.
#
# Zero temperature
# ----------------
# As :math:`\beta \to \infty`, each token follows the keys of the largest score alone.
# If a token does not count itself, that is its nearest neighbour. Steps end where the
# neighbour changes.

hardmax = attentions["hardmax"](A=1.0, V=1.0, d=2, self_=False)
cold = flow(hardmax, on_circle(angles), [0.0, 40.0])
scores = np.cos(angles[:, None] - angles[None]) - 3 * np.eye(40)
nearest = np.argmax(scores, axis=1)
n_pairs = int(np.sum(nearest[nearest] == np.arange(40))) // 2
count = int(cosine_counts(np.asarray(cold.last), np.full(40, 1 / 40), 1e-6).counts)
print(n_pairs, "pairs of mutual neighbours,", count, "clusters in the end")

# %%
# *What one sees:* the clusters are those of the pairs that are each other's neighbours
# at the start. At zero temperature they never meet.

# %%
# Exercises
# ---------
# 1. Give the two tokens the weights 1 and 3. Which equation has :math:`\theta` now, and
#    how much faster do they meet at :math:`\beta = 100`?
# 2. How many clusters are there at :math:`t = 15` for :math:`\beta = 4, 16, 64, 256`,
#    from 400 random tokens? Which power of :math:`\beta` is it?
# 3. Replace :math:`V = I` by :math:`V = -I`. What is the limit, and what is its energy?
# 4. Let the second of two tokens see the first, but not the first the second (a causal
#    mask). By which factor does the time to meet change?
