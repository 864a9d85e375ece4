"""Which keys of a spec a live page has use for, as their rows say; no JAX."""

from meanfield.spec import KEYS

_GROUPS = {
    "Grid": "it moves tokens and Gaussians, no densities",
    "Transformer": "it has no transformer",
}
_REASONS = {
    key: row.no_page or _GROUPS.get(str(row.group)) for key, row in KEYS.items()
}

REFUSED = {key: reason for key, reason in _REASONS.items() if reason}
"""The keys that mean nothing to a page, and what it does instead."""

UNLISTED = frozenset({*REFUSED, "precision", "options"})
"""The keys that its help leaves out: any precision is double there, and of the
attentions that it knows those of a plugin alone have options."""
