r"""
Attention as a transport kernel
===============================

A layer of attention sends mass from each token to the others. Here its matrix of
weights is read as a transport plan: of softmax it has one marginal right, of Sinkhorn
both. The latter is the plan of entropic optimal transport, which `POT
<https://pythonot.github.io>`_ computes too.

* **Before it:** couplings and marginals, entropic optimal transport, softmax.
* **Afterwards you can** read an attention matrix as a plan, say which marginals are
  right, and predict what that does to the mean.
* **Time:** 20 minutes to read and run, 40 with the exercises
  (:doc:`answers </generated/answers/answers_1_kernel>`).
"""

import jax

import meanfield

meanfield.set_precision("double")

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import ot

from meanfield import Points, attentions, clouds, flow
from meanfield.attention import plans

# %%
# The plan of softmax
# -------------------
# Forty tokens in the plane, sorted by their first coordinate. With scores :math:`s(x,
# y) = x\cdot y/\epsilon` and weights :math:`w_j = 1/n`, row :math:`i` of the matrix
# holds :math:`\kappa_\mu(x_i, x_j)\,w_j`: a probability over the keys.

n = 40
x = np.asarray(clouds["moons"](n, 2, key=jax.random.key(1)))
x = x[np.argsort(x[:, 0])]
mu = Points.uniform(x)
eye = jnp.eye(2)


def plan_of(name, epsilon):
    """The matrix of weights of an attention, `[n, n]`."""
    return np.asarray(
        plans(attentions[name](eye, eye, eye, epsilon=epsilon), 0.0, mu)[0]
    )


rows = plan_of("softmax", 0.2)
print("rows:   ", rows.sum(axis=1).min(), rows.sum(axis=1).max())
print("columns:", rows.sum(axis=0).min().round(3), rows.sum(axis=0).max().round(3))

# %%
# Rows sum to one, columns do not: some tokens are looked at by many, others by none.
# Read as a plan, :math:`\pi_{ij} = \frac1n\,\kappa_{ij} w_j` has :math:`\mu` as first
# marginal and another measure as second.
#
# Sinkhorn makes both marginals right
# -----------------------------------
# Sinkhorn attention multiplies :math:`e^{s}` by functions of the query and of the key
# until rows and columns sum to one. That is the solution of
#
# .. math:: \min_\pi \int -x\cdot y\,d\pi + \epsilon\,\mathrm{KL}(\pi\,|\,\mu\otimes\mu)
#
# over plans with both marginals :math:`\mu`. POT solves the same problem from the cost
# alone.

epsilon = 0.2
ours = plan_of("sinkhorn", epsilon) / n
w = np.full(n, 1 / n)
theirs = ot.bregman.sinkhorn_log(
    w, w, -x @ x.T, epsilon, stopThr=1e-13, numItermax=100_000
)
print("largest difference of the two plans:", np.abs(ours - theirs).max())
assert np.abs(ours - theirs).max() < 1e-10

# %%
# From spread to sharp
# --------------------
# A large :math:`\epsilon` sends everybody's mass everywhere. As :math:`\epsilon \to 0`
# softmax looks at the key furthest in the direction of the query, and the plan of
# Sinkhorn becomes an optimal assignment of tokens to tokens, for the cost
# :math:`-x\cdot y` the identity.

figure, axes = plt.subplots(2, 3, figsize=(8, 5.2), layout="constrained")
for row, name in zip(axes, ("softmax", "sinkhorn"), strict=True):
    for panel, bandwidth in zip(row, (2.0, 0.2, 0.02), strict=True):
        panel.imshow(plan_of(name, bandwidth), cmap="Blues", vmin=0)
        panel.set(xticks=[], yticks=[], title=f"{name}, ε = {bandwidth:g}")
axes[1, 0].set(xlabel="key", ylabel="query")
plt.show()

# %%
# *What one sees:* from left to right both plans concentrate. In the upper row some
# columns are dark and others empty: softmax sends many queries to the few tokens that
# lie furthest out. In the lower row every column holds as much as every other, and the
# last plan is almost the identity.
#
# A kernel moves tokens
# ---------------------
# The velocity is :math:`V` times the barycentre :math:`\sum_j \kappa_{ij}w_jx_j`.
# Doubly stochastic weights keep the mean of the barycentres at the mean of the tokens;
# softmax does not.

for name in ("softmax", "sinkhorn"):
    barycentres = plan_of(name, 0.2) @ x
    print(f"{name:8} mean of barycentres {barycentres.mean(axis=0).round(4)}")
print(f"{'':8} mean of tokens       {x.mean(axis=0).round(4)}")

# %%
# So under Sinkhorn attention with :math:`V = -I` the mean :math:`m` solves :math:`m' =
# -m`, exactly.

run = flow(
    attentions["sinkhorn"](eye, eye, -eye, epsilon=1.0),
    Points.uniform(x + 1.0),
    [0.0, 1.0],
)
print(run.final.mean / np.mean(x + 1.0, axis=0), np.exp(-1.0))

# %%
# The same flow on a page
# -----------------------
# A live page integrates a flow in the browser. Press the triangle, drag a token, or
# move a slider; the command below the picture repeats what the page shows.

meanfield.live(attention="sinkhorn", d=2, init="moons", n=60, A=1.0, V=-1.0, t=4.0)

# %%
# Exercises
# ---------
# 1. Show that adding a function of the query to the scores changes neither plan. Which
#    of the two does a function of the key leave alone? Check both with ``key_bias``
#    and ``query_bias`` of :py:obj:`~meanfield.scores.Dot`: which of them adds which?
# 2. The cost :math:`-x\cdot y` and the cost :math:`\frac12|x - y|^2` give the same
#    Sinkhorn plan. Why? Why does ``l2`` differ from ``softmax`` all the same?
# 3. ``Sinkhorn(iterations=k)`` stops after ``k`` half-steps. Plot the error of the
#    columns against odd ``k`` on a logarithmic axis for :math:`\epsilon` = 1, 0.3, 0.1.
#    What is the rate?
# 4. Replace ``sinkhorn`` by ``esp``, whose plan matches tokens by their ranks along
#    each axis. Which of its marginals are right? Compare it with the picture at
#    :math:`\epsilon` = 0.02.
