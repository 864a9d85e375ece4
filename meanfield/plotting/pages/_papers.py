"""What the keys of papers stand for."""

from collections.abc import Collection

_OWN = "new"
_TITLES = {
    "castin2025": (
        "Castin, Ablin, Carrillo, Peyré",
        "A unified perspective on the dynamics of deep transformers",
    ),
    "sander2022": ("Sander, Ablin, Blondel, Peyré", "Sinkformers"),
    "uw2023": ("University of Washington", "slides on Sinkformers"),
    "tay2020": ("Tay et al.", "Sparse Sinkhorn Attention"),
    "shahbazi2025": ("Shahbazi et al.", "ESPFormer"),
    _OWN: ("This project", "formulas of its own, derived in its documents"),
}


def cited(key: str) -> str:
    """Authors and title as HTML; nothing for a key that is not known."""
    if key not in _TITLES:
        return ""
    authors, title = _TITLES[key]
    return f'<p class="source">{authors}: <cite>{title}</cite></p>'


def counted(keys: Collection[str]) -> str:
    """How many papers there are, and whether the project has statements of its own."""
    papers = len([key for key in keys if key != _OWN])
    words = [f"{papers} paper{'s' if papers > 1 else ''}"] if papers else []
    return " and ".join([*words, "this project"] if _OWN in keys else words) or "nobody"
