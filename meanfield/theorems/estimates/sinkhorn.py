r"""Estimates of fields: Sinkhorn attention.

The Lipschitz constant of Lemma B.6 (iii) is our own. Let $a = \|A\|$. In the ball of
radius $R$, moving the measure by $W_1$ changes half the oscillation of the potential
$g$ by at most $\delta/(1 - \tanh(aR^2))$, where $\delta = 2aRe^{4aR^2}W_1$ (see the
estimates of potentials). Moving an atom $y_0$ of weight $w_0$ by $h$ changes the field
by the covariance of $y$ and $dg(y)$ under the law $\kappa\mu$, of mean $m$, plus
$w_0(\kappa h + (y_0 - m) D_y\kappa\cdot h)$. Here $\log\kappa \leq r = 2aR(|x| + R)$,
$|D_y\log\kappa| \leq a(|x| + R)$ and $|y_0 - m| \leq 2R$.
"""

from meanfield.theorems._arrays import JaxArray, jax, jnp
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.tokens import Tokens

from . import attacks

THREE = ("(i) size", "(ii) derivative in x", "(iii) Lipschitz in μ")


@statement(
    "castin2025:lemma-B.6",
    source="Lemma B.6, App. B.1",
    claim=r"Sinkhorn: (i) $|\Gamma_\mu(x)| \leq \|V\| R$; (ii) $\|D_x\Gamma_\mu\| \leq "
    r"\|V\| \|A\| R^2$; (iii) $|\Gamma_\mu(x) - \Gamma_\nu(x)| \leq \|V\| (1 + cR + "
    r"2(\|Q\| + \|K\|)^2R|x|) e^{(\|Q\| + \|K\|)^2R|x|} W_2(\mu, \nu)$ for some $c$ "
    r"free of $\mu$, $\nu$, $x$. It follows from $|\Gamma_\mu(x) - \Gamma_\nu(x)| \leq "
    r"\|V\| (\frac{2aR^2 e^{4aR^2}}{1 - \tanh(aR^2)} + (1 + r) e^r) W_1(\mu, \nu)$ "
    r"with $a = \|A\|$, $r = 2aR(|x| + R)$, measured here.",
    hypotheses=r"$\mathrm{Supp}\,\mu, \mathrm{Supp}\,\nu \subset B_R$, $\epsilon = 1$; "
    r"other bandwidths by $Q/\sqrt\epsilon$, $K/\sqrt\epsilon$, $V/\epsilon$",
    remark="C6: (iii) with an explicit constant and with W₁ for W₂ is ours; it covers "
    "the exponents p < 2 that the proof of Theorem 3.1 leaves open.",
    control=("the constants are halved", {"bounds": (0.5, 0.5, 0.5)}, THREE),
)
def sinkhorn_estimates(case: Case, *, bounds: tuple[float, ...] = (1, 1, 1)) -> Checks:
    """Searches for violations of the bounds of Lemma B.6 by gradient ascent.

    The ascent differentiates the library's converged field. For bound (iii) it compares
    two measures that differ in one atom, so that W_1 is its weight times its
    displacement. Bound (i) must be reached by a Dirac, and bound (ii) by two equal
    masses at opposite points.
    """
    data = attacks.equality_case(case.rng("equality"))
    yield from attacks.estimates(case, sinkhorn, THREE, bounds=bounds)
    yield from attacks.two_equalities(case, sinkhorn, data.dirac(x=data.v), data.pair())


def sinkhorn(p: attacks.Parameters, index: JaxArray, factor: JaxArray) -> JaxArray:
    """Log-ratio (i), (ii) or (iii) of Lemma B.6.

    `factor` multiplies the exponents in bound (iii).
    """
    s, epsilon = attacks.scene(p), jnp.exp(p["log_epsilon"])
    dynamics = attacks.attention("sinkhorn", p, max_iterations=attacks.LIMIT)
    pair, log_distance = attacks.move_first_atom(s)
    fields = jax.vmap(
        lambda atoms: dynamics.field(0.0, s.mu.replace_coordinates(atoms))
    )(pair)

    def velocities(x: JaxArray) -> tuple[JaxArray, JaxArray]:
        values = jax.vmap(lambda field: field(Tokens(x[None, :]))[0])(fields)
        return values, values

    jacobians, (first, second) = jax.jacfwd(velocities, has_aux=True)(s.x)
    size = jnp.log(attacks.size(first)) - jnp.log(s.R)
    derivative = jnp.log(attacks.norm(jacobians[0])) - jnp.log(s.a * s.R**2)
    difference = jnp.log(attacks.size(second - first)) - log_distance
    difference = difference - _log_spread(s, factor)
    ratio = jnp.stack([size, derivative, difference])[index] - jnp.log(s.v / epsilon)
    return ratio + attacks.convergence_penalty(fields.convergence)


def _log_spread(s: attacks.Scene, factor: JaxArray) -> JaxArray:
    t, far = s.a * s.R**2, 2 * s.a * s.R * (s.reach + s.R)
    potential_term = jnp.log(2 * t) + 4 * factor * t - jnp.log1p(-jnp.tanh(t))
    return jnp.logaddexp(potential_term, factor * far + jnp.log1p(far))
