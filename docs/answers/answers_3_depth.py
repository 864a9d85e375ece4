r"""
Answers: tokens cluster over depth
==================================

To the exercises of :doc:`/generated/course/plot_3_depth`. The formulas hold for any
weights; they are checked on random layers, whose matrices are at hand, and most claims
end in an ``assert``. The last answer looks at MiniLM, where it is installed.
"""

import meanfield

meanfield.set_precision("double")

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import expm

from meanfield import (
    Attention,
    Gaussian,
    Heads,
    Layers,
    Points,
    adaptive,
    flow,
    models,
)
from meanfield.attention import Sinkhorn, Softmax
from meanfield.dynamics import stack_trees
from meanfield.plotting import effective_rank
from meanfield.scores import Dot

d, depth, n_heads, rank = 16, 3, 2, 4
rng = np.random.default_rng(0)
Q, K = rng.normal(size=(2, depth, n_heads, rank, d)) / np.sqrt(d)
V = rng.normal(size=(depth, n_heads, d, rank)) @ rng.normal(
    size=(depth, n_heads, rank, d)
)
V /= d * np.sqrt(rank)
x = np.random.default_rng(1).normal(size=(24, d))


def layers(sign=1.0, coupling=Softmax()):
    """Layers of random heads, one unit of time each."""

    def head(layer, h):
        score = Dot(Q[layer, h], K[layer, h], np.sqrt(rank))
        return Attention(score, coupling, sign * V[layer, h])

    stack = [
        Heads(stack_trees([head(i, h) for h in range(n_heads)])) for i in range(depth)
    ]
    return Layers(np.arange(depth + 1.0), stack_trees(stack))


def radius(x):
    """The RMS distance of tokens from their mean."""
    return np.sqrt(((x - x.mean(axis=0)) ** 2).sum(axis=1).mean())


def final(dynamics, start, t):
    """Where tokens are in the end."""
    run = flow(dynamics, Points.uniform(start), [0.0, t], stepping=adaptive(rtol=1e-8))
    run.raise_for_status()
    return np.asarray(run.final.tokens.x)


# %%
# 1. Values with the other sign
# -----------------------------
# Weights do not see :math:`V`, and the velocity is linear in it: with :math:`-V` every
# token moves the opposite way. *Within one layer* the flow of :math:`-V` is the flow of
# :math:`V` run backwards, so that one after the other lead back to the start. Where
# :math:`V` drives tokens apart along some directions, :math:`-V` draws them together
# along the same.

one_layer = final(layers(), x, 1.0)
back = final(layers(sign=-1.0), one_layer, 1.0)
print("there and back:", np.abs(back - x).max())
assert np.abs(back - x).max() < 1e-6

forward, reversed_ = final(layers(), x, depth), final(layers(sign=-1.0), x, depth)
print(f"radius {radius(x):.3f} → {radius(forward):.3f}, or {radius(reversed_):.3f}")

# %%
# The cloud grows under :math:`-V`, too, though less. At the start the rates are
# opposite, and the cloud shrinks at first. But the rate of the covariance has both
# signs, half of its eigenvalues each (as almost any :math:`M + M^\top` with :math:`M`
# of rank :math:`d/2`; here two heads have rank four each). Under :math:`-V` the
# directions that shrank are those that grow. What grows does so like
# :math:`e^{\lambda t}` and passes what shrinks: :math:`e^{\lambda t} + e^{-\lambda t}`
# is least at zero, and rises either way. Before the first layer ends, the cloud is
# larger than it began.


def covariance_rate(sign):
    """The rate of the covariance of the tokens at the start."""
    mu = Points.uniform(x)
    v = np.asarray(layers(sign).field(0.0, mu)(mu.tokens))
    half = (x - x.mean(axis=0)).T @ (v - v.mean(axis=0)) / len(x)
    return half + half.T


rates = np.linalg.eigvalsh(covariance_rate(1.0))
print(f"rate of the trace under V: {rates.sum():.3f}, under −V the opposite")
print(f"directions that grow: {(rates > 0).sum()}, that shrink: {(rates < 0).sum()}")
assert np.allclose(covariance_rate(-1.0), -covariance_rate(1.0), atol=1e-12)
assert (rates > 0).sum() == (rates < 0).sum() == d / 2

early, late = (final(layers(sign=-1.0), x, t) for t in (0.25, 1.0))
print(f"under −V: {radius(x):.4f}, {radius(early):.4f} at 1/4, {radius(late):.4f} at 1")
assert radius(early) < radius(x) < radius(late)

# %%
# Over several layers :math:`-V` is no time reversal, since the layers come in the same
# order; and the directions that one layer drew together are not those that the next
# does. So growth does not make clusters by itself: it is the growth *in few directions*
# that does, measured by the rank, which falls under :math:`V` and stays under
# :math:`-V`.


def rank_of(x):
    """The effective rank of the covariance of tokens."""
    return float(effective_rank(np.cov(x.T, bias=True)))


ranks = [rank_of(states) for states in (x, forward, reversed_)]
print(f"rank {ranks[0]:.2f} → {ranks[1]:.2f}, or {ranks[2]:.2f}")
assert ranks[1] < 0.95 * ranks[0]
assert abs(ranks[2] / ranks[0] - 1) < 0.01

# %%
# 2. One head for a long time
# ---------------------------
# Softmax weights are positive and sum to one, so a velocity is :math:`V` times a mean
# of tokens, and :math:`|v| \leq \|V\|\max_j|x_j|`. By Grönwall tokens obey
# :math:`\max_j|x_j(t)| \leq e^{\|V\|t}\max_j|x_j(0)|`: they may grow exponentially, and
# never blow up. A Gaussian has tails without an end, :math:`\dot\Sigma = V\Sigma
# A\Sigma + (\dots)^\top` is quadratic, and may blow up in finite time. After that there
# is nothing to compare.

head = Attention(Dot(Q[0, 0], K[0, 0], np.sqrt(rank)), Softmax(), V[0, 0])
times = np.linspace(0.0, 20.0, 41)
cloud = Points.uniform(x)
tokens = flow(head, cloud, times, stepping=adaptive(rtol=1e-6))
closure = flow(head, Gaussian.from_moments(cloud.mean, cloud.covariance), times)
sizes = np.asarray(tokens.map(lambda mu: mu.tokens.x))
largest = np.linalg.norm(sizes, axis=2).max(axis=1)
bound = largest[0] * np.exp(np.linalg.norm(V[0, 0], 2) * times)
print(f"tokens: {tokens.status}, Gaussian: {closure.status}")
print(f"t* = {float(closure.t_star):.4f}")
assert closure.status.ending == "blow-up"
assert np.all(largest <= bound * (1 + 1e-6))

figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
reached = ~(times > float(closure.t_star))  # all of them, if it is NaN
axes.semilogy(times, [radius(states) for states in sizes], label="tokens")
traces = np.trace(np.asarray(closure.covariance), axis1=1, axis2=2)
axes.semilogy(times[reached], np.sqrt(traces[reached]), "--", label="Gaussian")
axes.semilogy(times, bound, ":", color="#8a8a8a", label="bound on a token")
axes.set(xlabel="t", ylabel="radius")
axes.legend(frameon=False)
plt.show()

# %%
# *What one sees:* Gaussian and tokens agree for some units of time, until the few
# tokens that lie furthest out have left the rest; then the Gaussian runs off, and the
# tokens go on growing as :math:`e^{\lambda t}`, below the bound.
#
# 3. Doubly stochastic weights
# ----------------------------
# Under Sinkhorn the mean of the barycentres is the mean :math:`m` of the tokens (the
# columns sum to one), so within a layer :math:`\dot m = \sum_h V_h\,m`, whatever the
# scores, and
#
# .. math:: m(3) = e^{W_2}e^{W_1}e^{W_0}\,m(0), \qquad W_\ell = \sum_h V_{\ell h}.
#
# The mean does move, and can be computed without the tokens. With biases, as MiniLM
# has them, the equation is :math:`\dot m = Wm + b`.

start = x + 1.0
m = start.mean(axis=0)
for layer in range(depth):
    m = expm(V[layer].sum(axis=0)) @ m
by_sinkhorn = final(layers(coupling=Sinkhorn()), start, depth).mean(axis=0)
by_softmax = final(layers(), start, depth).mean(axis=0)
print("sinkhorn – formula:", np.abs(by_sinkhorn - m).max())
print("softmax – formula: ", np.abs(by_softmax - m).max())
assert np.abs(by_sinkhorn - m).max() < 1e-6 < 1e-3 < np.abs(by_softmax - m).max()

# %%
# 4. Shuffled words
# -----------------
# The flow sees the measure :math:`\frac1n\sum_i\delta_{x_i}`, which has no order. To
# shuffle the *tokens* changes nothing but their numbers, and the curve of ranks cannot
# change. To shuffle the *words* of the sentence does: an embedding adds a vector for
# the position to the vector of the word, so that other tokens come out.

order = np.random.default_rng(2).permutation(len(x))
assert np.abs(final(layers(), x[order], depth) - forward[order]).max() < 1e-6

WORDS = "Alice was beginning to get very tired of sitting by her sister on the bank"
shuffled = " ".join(np.random.default_rng(3).permutation(WORDS.split()))


def rank_curve(checkpoint, text):
    """The effective rank of the tokens of a text in two layers of MiniLM."""
    start = Points.uniform(models.embed(checkpoint, text)[0].x)
    attention = models.layers(checkpoint, layers=[0, 1])
    run = flow(attention, start, np.linspace(0, 2, 9), stepping=adaptive(rtol=1e-3))
    x = np.asarray(run.map(lambda mu: mu.tokens.x))
    centred = x - x.mean(axis=1, keepdims=True)
    return effective_rank(centred @ np.swapaxes(centred, 1, 2) / x.shape[1])


if "minilm" in {
    entry.name for entry in models.list_models() if entry.folder is not None
}:
    checkpoint = models.load("minilm")
    for text in (WORDS, shuffled):
        curve = np.asarray(rank_curve(checkpoint, text))
        print(f"rank {curve[0]:.2f} → {curve[-1]:.2f}: {text}")
