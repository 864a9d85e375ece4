"""Tokens that are spread over devices, for flows that are written in Python."""

from meanfield.measures import Points

from ._layout import Layout, spread_over


def spread(mu: Points, devices: int) -> Points:
    """The same tokens, spread over devices, and sums over them in a ring.

    Each device holds `n / devices` tokens, and the keys of as many more that are on
    their way; sums are exact. Tokens that do not divide among the devices are held by
    each, and only their sums are shared. Flows, fields and derivatives are those of
    `mu`, up to the order in which numbers are added.

    Args:
        mu: tokens with weights.
        devices: how many; the first that JAX has found.

    Raises:
        InvalidInputError: if `devices` is not at least one.
        ResourceError: if JAX has found fewer.
        UnsupportedError: if `mu` has no tokens.

    Examples:
        >>> from meanfield import Points, attentions, flow
        >>> from meanfield.devices import spread
        >>> mu, one = Points.uniform([[0.0], [1.0]]), jnp.eye(1)
        >>> softmax = attentions["softmax"](one, one, -one)
        >>> runs = [flow(softmax, start, [0.0, 1.0]) for start in (mu, spread(mu, 1))]
        >>> print(jnp.allclose(runs[0].last, runs[1].last, rtol=1e-12))
        True
    """
    layout = Layout.over(devices)
    return spread_over(layout.mesh, layout.summed(mu))
