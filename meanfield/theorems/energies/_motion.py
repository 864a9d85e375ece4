r"""Atoms with momenta, and the geodesics of the library's twisted metric through them.

Geodesics are the Hamiltonian flow of a quarter of the squared length of $\nabla\psi$.
The library's length is differentiated here; no equation of the paper is used.
"""

from typing import NamedTuple

from typing_extensions import override

from meanfield.energies import AbstractVariation, Interaction
from meanfield.energies.gradient_flow import TwistedDescent
from meanfield.fields import Convergence
from meanfield.measures import Points
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, jax, jnp, np
from meanfield.theorems.library.energies import spd
from meanfield.theorems.library.ensembles import tokens
from meanfield.theorems.reference import energies as ref
from meanfield.theorems.reference import formulas
from meanfield.tokens import Tokens


class Motion(NamedTuple):
    r"""Atoms, momenta $p_i = \nabla\psi(x_i)$, $G(x, y) = e^{Ax\cdot y}$, and $B$."""

    A: Array  # `(d, d)`
    B: Array  # symmetric positive definite matrix
    w: Array  # weights
    x: Array  # atoms
    H: Array  # the Hessian of $\psi(x) = \frac12(x - c)\cdot H(x - c)$
    c: Array  # the centre of $\psi$

    @property
    def p(self) -> Array:
        """The momenta."""
        return (self.x - self.c) @ self.H

    @property
    def z(self) -> Array:
        """Atoms and momenta, stacked."""
        return np.stack([self.x, self.p])

    @property
    def symmetric(self) -> "Motion":
        """The motion with the symmetric part of `A` in place of `A`."""
        return self._replace(A=(self.A + self.A.T) / 2)


def mass(m: Motion, x: Array) -> Array:
    r"""$(G * \rho)(x_i)$ for atoms `x` with the weights of the motion, by NumPy."""
    return np.exp(ref.bilinear(m.A)(x, x)) @ m.w


def motion(rng: Rng, n: int = 5) -> Motion:
    """Random motion of `n` atoms in the plane; `A` is not symmetric."""
    x, w = tokens(rng, n, 2)
    A, C = rng.normal(size=(2, 2, 2)) / 2
    return Motion(A, spd(rng, 2), w, 0.7 * x, (C + C.T) / 2, rng.normal(size=2))


class Geodesic(NamedTuple):
    """The library's quantities along the geodesic through atoms and momenta."""

    velocity: Array  # velocities of atoms and of momenta, stacked
    length: Array  # a quarter of the squared length, which is the Hamiltonian
    energy: Array  # the interaction energy of the atoms
    derivative: Array  # the derivative of the energy along the geodesic
    second: Array  # the second derivative of the energy


class _Momenta(AbstractVariation):
    """First variation whose gradient at each atom is the momentum of that atom."""

    p: JaxArray

    @override
    def __call__(self, tokens: Tokens) -> JaxArray:
        return jnp.sum(self.p * tokens.x, axis=1)

    @property
    @override
    def convergence(self) -> Convergence | None:
        return None


def _length(m: Motion, z: JaxArray) -> JaxArray:
    r"""Hamiltonian $\frac14\sum_iw_ip_i\cdot Bp_i/g_i$, from the library's metric."""
    x, p = z
    score, mu = Dot(m.A, jnp.eye(x.shape[1])), Points.weighted(x, m.w)
    down = TwistedDescent(_Momenta(p), score, jnp.asarray(m.B), mu)(mu.tokens)
    return -mu.weights @ jnp.sum(p * down, axis=1) / 4


@eqx.filter_jit
def _geodesic(m: Motion, z: JaxArray) -> tuple[JaxArray, ...]:
    def flow(z: JaxArray) -> JaxArray:
        grad_x, grad_p = jax.grad(lambda z: _length(m, z))(z)
        return jnp.stack([grad_p, -grad_x]) / m.w[None, :, None]

    score = Dot(m.A, jnp.eye(z.shape[2]))
    energy = lambda z: Interaction(score)(Points.weighted(z[0], m.w))
    derivative = lambda z: jax.jvp(energy, (z,), (flow(z),))[1]
    first, second = jax.jvp(derivative, (z,), (flow(z),))
    return flow(z), _length(m, z), energy(z), first, second


def geodesic(m: Motion, z: Array | None = None) -> Geodesic:
    """The library's geodesic through the motion's atoms and momenta, or through `z`."""
    values = _geodesic(m, jnp.asarray(m.z if z is None else z))
    return Geodesic(*map(np.asarray, values))


def path_of(m: Motion, ts: Array) -> Array:
    """Points of the library's geodesic at the times `ts`, integrated by SciPy."""
    return formulas.integrate(lambda _, z: geodesic(m, z).velocity, m.z, ts)
