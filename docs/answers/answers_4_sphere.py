r"""
Answers: clusters on a sphere
=============================

To the exercises of :doc:`/generated/course/plot_4_sphere`. Every claim ends in an
``assert``: against a formula or a computation that the library has no part in, or, if
the claim compares two flows, of one against the other.
"""

import meanfield

meanfield.set_precision("double")

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import quad

from meanfield import Points, adaptive, attentions, flow
from meanfield.clusters import cosine_counts
from meanfield.dynamics import Prefix, mask_of
from meanfield.flows import arclength
from meanfield.spaces import Sphere


def on_circle(angles, weights=None, position=None):
    """Tokens on the unit circle."""
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    w = np.ones(len(x)) if weights is None else weights
    return Points.weighted(x, w, position=position, space=Sphere())


def softmax(beta, V=1.0):
    """Softmax attention with Q = K = I at inverse temperature β."""
    return attentions["softmax"](A=1.0, V=V, d=2, epsilon=1 / beta)


def angle_of(run):
    """The last angle of two tokens."""
    first, second = np.asarray(run.final.tokens.x)
    return np.arccos(np.clip(first @ second, -1, 1))


# %%
# 1. Unequal weights
# ------------------
# A token of weight :math:`w_1` gives the other, of weight :math:`w_2`, the share
# :math:`q_1 = w_2 e^{\beta\cos\theta} / (w_1 e^\beta + w_2 e^{\beta\cos\theta})`, and
# :math:`\theta' = -(q_1 + q_2)\sin\theta`. While both shares are small,
# :math:`q_1 + q_2 \approx (3 + \frac13)\,e^{-\beta(1 - \cos\theta)}` in place of
# :math:`2e^{-\beta(1 - \cos\theta)}`: the light token is drawn three times as fast, the
# heavy one a third as fast. They meet 5/3 times as fast.


def time_to(end, beta, weights):
    """The time from a right angle to a smaller one, by quadrature."""
    w = np.asarray(weights)

    def slowness(angle):
        far = np.exp(beta * (np.cos(angle) - 1))
        return 1 / (np.sin(angle) * np.sum(w[::-1] * far / (w + w[::-1] * far)))

    return quad(slowness, end, np.pi / 2, epsrel=1e-12, limit=500)[0]


even, uneven = (time_to(1e-7, 100.0, w) for w in ([1.0, 1.0], [1.0, 3.0]))
start = on_circle(np.array([0.0, np.pi / 2]), np.array([1.0, 3.0]))
run = flow(softmax(100.0), start, [0.0, 2 * uneven], stepping=arclength())
time = float(run.merges[0, 0])
print(f"{even / uneven:.6f} times as fast, time {time:.8g} by quadrature {uneven:.8g}")
assert abs(even / uneven - 5 / 3) < 1e-4
assert abs(time / uneven - 1) < 1e-6

# %%
# 2. How many clusters
# --------------------
# A token sees others at angles up to about :math:`1/\sqrt\beta`, since
# :math:`e^{\beta(\cos\theta - 1)} \approx e^{-\beta\theta^2/2}`. So clusters are
# separated by a multiple of :math:`1/\sqrt\beta`, and their number grows like
# :math:`\sqrt\beta`.

betas = np.array([4.0, 16.0, 64.0, 256.0])
angles = np.random.default_rng(0).uniform(-np.pi, np.pi, 400)
counts = []
for beta in betas:
    run = flow(
        softmax(beta), on_circle(angles), [0.0, 15.0], stepping=adaptive(rtol=1e-6)
    )
    x = np.asarray(run.final.tokens.x)
    counts.append(float(cosine_counts(x, np.full(400, 1 / 400), 0.1 / beta).counts))
power = np.polyfit(np.log(betas), np.log(counts), 1)[0]
print(dict(zip(betas.tolist(), counts, strict=True)), f"power {power:.2f}")
assert 0.3 < power < 0.7

figure, axes = plt.subplots(figsize=(4, 3), layout="constrained")
axes.loglog(betas, counts, "o-")
axes.set(xlabel="β", ylabel="clusters")
plt.show()

# %%
# 3. Repulsion
# ------------
# With :math:`V = -I` tokens move away from the mean of the others. On the circle they
# end as a regular polygon, up to rotation: the energy is that of equal distances.

n, beta = 5, 4.0
run = flow(softmax(beta, V=-1.0), on_circle(np.sort(angles[:n])), [0.0, 400.0])
x = np.asarray(run.final.tokens.x)
energy = np.exp(beta * (x @ x.T - 1)).mean()
polygon = np.exp(beta * (np.cos(2 * np.pi * np.arange(n) / n) - 1)).mean()
print(f"energy {energy:.10f}, of the regular pentagon {polygon:.10f}")
assert abs(energy - polygon) < 1e-8

# %%
# 4. A causal mask
# ----------------
# The first token sees only itself, and its velocity is tangential part of itself: none.
# The second moves as before. So :math:`\theta'` is half of what it was, and the time to
# meet is twice as long.

beta = 5.0
time = time_to(0.1, beta, [1.0, 1.0])
masked = Prefix(softmax(beta), mask_of("causal"))
start = on_circle(np.array([0.0, np.pi / 2]), position=np.array([0.5, 1.0]))
run = flow(masked, start, [0.0, 2 * time], stepping=adaptive(rtol=1e-10))
print(f"angle after twice the time: {angle_of(run):.8f}")
assert abs(angle_of(run) - 0.1) < 1e-7
