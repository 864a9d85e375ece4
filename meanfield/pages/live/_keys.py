"""Which keys of a spec a live page has use for, and what they mean there; no JAX."""

from meanfield.spec import KEYS

_OF_KEYS = {
    "projected": "a page moves Gaussians where attention keeps them Gaussian",
    "drift": "a page has attention alone",
    "dt": "a page integrates to a tolerance, which `--rtol` sets",
    "times": "a page ends at `--t`",
    "at": "a page starts at the first frame of a run whose folder it is given",
    "segment": "a page stores nothing",
    "solver": "a page has one integrator, of order five",
    "reduction": "a page sums over all tokens",
    "observe": "a page records no energies",
    "depth": "a page has no layers",
    **dict.fromkeys(("starts", "draws"), "a page integrates one flow"),
    **dict.fromkeys(("frames", "spacing"), "a page draws while it integrates"),
    **dict.fromkeys(
        ("bound", "stop"), "a page ends at `--t`, at rest (`--steady`) or at a blow-up"
    ),
    **dict.fromkeys(
        ("context", "context_mean", "context_cov"),
        "the tokens of a page look at each other",
    ),
}
_OF_GROUPS = {
    "Grid": "a page moves tokens and Gaussians, no densities",
    "Transformer": "a page has no transformer",
}
REFUSED = {
    key: _OF_KEYS.get(key) or _OF_GROUPS[str(row.group)]
    for key, row in KEYS.items()
    if key in _OF_KEYS or row.group in _OF_GROUPS
}
"""The keys that mean nothing to a page, and what it does instead."""

UNLISTED = frozenset({*REFUSED, "precision", "options"})
"""The keys that its help leaves out: any precision is double there, and only attentions
of a plugin that are one of its own have options."""

MEANINGS = {
    "attention": "`softmax`, `l2`, `sinkhorn` or `linear`; of tokens, `sigmoid` too "
    "[default: softmax]",
    "measure": "what is moved: `points` or `gaussian` [default: points]",
    "n": "number of tokens; 400 if absent, 100 under Sinkhorn attention",
    "mask": "`causal`; none if absent",
    "iterations": "Sinkhorn half-steps, an odd number; to a tolerance if absent",
    "rtol": "relative error of a step; 1e-7 of tokens and 1e-9 of Gaussians if absent",
    "max_steps": "steps allowed [default: 100000]",
}
"""What the help says of keys that mean something else to a page."""
