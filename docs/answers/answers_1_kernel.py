r"""
Answers: attention as a transport kernel
========================================

To the exercises of :doc:`/generated/course/plot_1_kernel`. Every claim ends in an
``assert``: against a formula or a computation that the library has no part in, or, if
the claim compares two attentions or two flows, of one against the other.
"""

import jax

import meanfield

meanfield.set_precision("double")

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import ot

from meanfield import Attention, Points, attentions, clouds
from meanfield.attention import Sinkhorn, Softmax, plans
from meanfield.scores import Dot

n, epsilon = 40, 0.5
x = np.asarray(clouds["moons"](n, 2, key=jax.random.key(1)))
x = x[np.argsort(x[:, 0])]
mu = Points.uniform(x)
eye = jnp.eye(2)


def matrix(attention, measure=mu):
    """The weights of an attention, a row for each query."""
    return np.asarray(plans(attention, 0.0, measure)[0])


# %%
# 1. Functions of the query, functions of the key
# -----------------------------------------------
# Add :math:`a(x) + b(y)` to the scores. Each row of softmax is divided by its sum, in
# which :math:`e^{a(x)}` is a common factor: it cancels. The factor :math:`e^{b(y)}`
# does not, and acts like a change of the weights, :math:`w_j \to w_je^{b(x_j)}`.
# Sinkhorn multiplies by a function of the query *and* one of the key until both
# marginals are right, and these take up :math:`a` and :math:`b` alike.
#
# With :math:`s(x, y) = (Qx + q)\cdot(Ky + k)/\epsilon` the ``key_bias`` :math:`k` adds
# a function of the query, :math:`Qx\cdot k/\epsilon`, and the ``query_bias`` :math:`q`
# one of the key, :math:`q\cdot Ky/\epsilon`.

bias = jnp.array([0.7, -0.4])
scores = {
    "plain": Dot(eye, eye, epsilon),
    "of the query": Dot(eye, eye, epsilon, key_bias=bias),
    "of the key": Dot(eye, eye, epsilon, query_bias=bias),
}
changes = {}
for name, coupling in (("softmax", Softmax()), ("sinkhorn", Sinkhorn())):
    plain, *others = (matrix(Attention(s, coupling, eye)) for s in scores.values())
    changes[name] = [float(np.abs(other - plain).max()) for other in others]
    print(f"{name:8}", dict(zip(list(scores)[1:], changes[name], strict=True)))
assert changes["softmax"][0] < 1e-12 < 1e-2 < changes["softmax"][1]

# %%
# The zeros of Sinkhorn are exact, and prove nothing: ``Sinkhorn()`` knows the answer,
# drops both terms before it begins, and solves the same problem three times. A number
# of half-steps given beforehand takes the scores as they are. That of the query is gone
# after the first half-step, which is softmax; that of the key fades as the columns
# become right.

for k in (1, 11, 41, 101):
    steps = Sinkhorn(iterations=k)
    plain, *others = (matrix(Attention(s, steps, eye)) for s in scores.values())
    faded = [float(np.abs(other - plain).max()) for other in others]
    print(f"{k:3} half-steps: of the query {faded[0]:.1e}, of the key {faded[1]:.1e}")
    assert faded[0] < 1e-12
    assert k > 1 or abs(faded[1] - changes["softmax"][1]) < 1e-12
assert faded[1] < 1e-10
limit = matrix(Attention(scores["plain"], Sinkhorn(), eye))
assert np.abs(others[1] - limit).max() < 1e-9

# %%
# Under softmax the function of the key is a change of weights, as was claimed (for
# Sinkhorn the next answer asks POT):

tilted = np.exp(x @ x.T / epsilon) * np.exp(x @ np.asarray(bias) / epsilon)
tilted /= tilted.sum(axis=1, keepdims=True)
moved = matrix(Attention(scores["of the key"], Softmax(), eye))
assert np.abs(moved - tilted).max() < 1e-12

# %%
# 2. Two costs, one plan
# ----------------------
# Expand the square: :math:`\frac12|x-y|^2 = \frac12|x|^2 + \frac12|y|^2 - x\cdot y`.
# The two costs differ by a function of :math:`x` and one of :math:`y`, whose integrals
# against a plan with marginals :math:`\mu` do not depend on the plan. So the minimisers
# agree.

w = np.full(n, 1 / n)
options = {"stopThr": 1e-13, "numItermax": 100_000}
squares = ((x[:, None] - x[None]) ** 2).sum(axis=2)
of_dot = ot.bregman.sinkhorn_log(w, w, -x @ x.T, epsilon, **options)
of_square = ot.bregman.sinkhorn_log(w, w, squares / 2, epsilon, **options)
print("plans of POT differ by", np.abs(of_dot - of_square).max())
assert np.abs(of_dot - of_square).max() < 1e-10
sinkhorn = matrix(Attention(scores["of the key"], Sinkhorn(), eye))
assert np.abs(sinkhorn - n * of_dot).max() < 1e-7  # answer 1, too

# %%
# Softmax has one marginal to adjust, and loses the function of :math:`x` alone. What is
# left of the square is :math:`-\frac12|y|^2`: keys far from the origin count less under
# ``l2``. It follows that the two agree where :math:`|y|` is constant, on a circle.
# (``l2`` has scores :math:`-|x-y|^2/\epsilon` without the half: give it
# :math:`2\epsilon`.)

circle = Points.uniform(x / np.linalg.norm(x, axis=1, keepdims=True))
softmax = attentions["softmax"](eye, eye, eye, epsilon=epsilon)
l2 = attentions["l2"](eye, eye, eye, epsilon=2 * epsilon)
on_moons = np.abs(matrix(softmax) - matrix(l2)).max()
on_circle = np.abs(matrix(softmax, circle) - matrix(l2, circle)).max()
print(f"softmax – l2: {on_moons:.3f} on the moons, {on_circle:.1e} on a circle")
assert on_circle < 1e-12 < 1e-2 < on_moons

# %%
# 3. The rate of Sinkhorn
# -----------------------
# After an odd number of half-steps rows are right, and the sums of columns are off.
# Near its limit :math:`P` (doubly stochastic) a half-step maps the error of one
# potential to that of the other by :math:`P` or :math:`P^\top`, so two of them multiply
# by :math:`P^\top P`. Constants have the eigenvalue one and change nothing; the error
# falls by the second, :math:`\sigma_2(P)^2`, in every two half-steps.

odd = np.array([1, 5, 9, 13, 21, 31, 41, 81, 121])
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
for bandwidth, colour in ((1.0, "#0072B2"), (0.3, "#D55E00"), (0.1, "#009E73")):
    score = Dot(eye, eye, bandwidth)
    errors = [
        np.abs(matrix(Attention(score, Sinkhorn(int(k)), eye)).sum(axis=0) - 1).max()
        for k in odd
    ]
    axes.semilogy(odd, errors, "o-", color=colour, label=f"ε = {bandwidth:g}")
    limit = n * ot.bregman.sinkhorn_log(w, w, -x @ x.T, bandwidth, **options)
    second, third = np.linalg.svd(limit, compute_uv=False)[1:3] ** 2
    last = np.flatnonzero(np.array(errors) > 1e-12)[-1]  # then rounding is left
    seen = (errors[last] / errors[last - 1]) ** (2 / (odd[last] - odd[last - 1]))
    print(f"ε = {bandwidth:<4g} rate {seen:.4f}, σ₂² {second:.4f}, σ₃² {third:.4f}")
    assert third - 0.01 < seen < second + 0.01
    assert bandwidth < 0.3 or abs(seen - second) < 1e-3
axes.set(xlabel="half-steps", ylabel="error of the columns")
axes.legend(frameon=False)
plt.show()

# %%
# *What one sees:* straight lines on a logarithmic axis, so a linear rate; the smaller
# :math:`\epsilon`, the closer :math:`P` is to a permutation, whose singular values are
# all one, and the flatter the line. At :math:`\epsilon = 0.1` the final rate is not
# reached yet: the slowest mode moves mass from one moon to the other, the two moons are
# almost symmetric, and an iteration that starts symmetric hardly excites it. Until it
# shows, the third singular value rules.
#
# 4. Plans by ranks
# -----------------
# ``esp`` sorts queries and keys along each axis and matches equal ranks; its plan is
# the mean of these permutations. Permutations are doubly stochastic, and so is their
# mean: *both* marginals are right, exactly and without an iteration. With :math:`Q = K
# = I` both clouds are the same, equal ranks are equal tokens, and every permutation is
# the identity: the picture that Sinkhorn tends to as :math:`\epsilon \to 0`. With
# :math:`A = -I` ranks are reversed along each axis, and the two orders disagree.

same = matrix(attentions["esp"](eye, eye, eye))
opposite = matrix(attentions["esp"](-eye, eye, eye))
assert np.array_equal(same, np.eye(n))
order = np.argsort(x, axis=0)
by_hand = np.zeros((n, n))
for axis in range(2):
    by_hand[order[:, axis], order[::-1, axis]] += 1 / 2
print("both marginals:", opposite.sum(axis=0).min(), opposite.sum(axis=1).max())
assert np.abs(opposite - by_hand).max() < 1e-12

figure, axes = plt.subplots(1, 3, figsize=(8, 2.9), layout="constrained")
sharp = attentions["sinkhorn"](eye, eye, eye, epsilon=0.02)
for panel, plan, title in zip(
    axes,
    (matrix(sharp), same, opposite),
    ("sinkhorn, ε = 0.02", "esp, A = I", "esp, A = −I"),
    strict=True,
):
    panel.imshow(plan, cmap="Blues", vmin=0)
    panel.set(xticks=[], yticks=[], title=title, xlabel="key")
axes[0].set(ylabel="query")
plt.show()

# %%
# *What one sees:* at :math:`\epsilon = 0.02` Sinkhorn still blurs neighbours; ``esp``
# is sharp. Under :math:`A = -I` the antidiagonal is the first axis, by which the tokens
# are sorted; the scattered half is the second.
