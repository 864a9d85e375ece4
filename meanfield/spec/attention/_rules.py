"""Keys of one attention that do not go together."""

from collections.abc import Mapping
from typing import Any

from ._context import LAW


def check_attention(given: Mapping[str, Any]) -> None:
    """Checks that the keys of an attention go together.

    Args:
        given: the values of all of them.

    Raises:
        ValueError: naming the keys, and what to do.
    """
    if given["A"] is not None and (given["Q"], given["K"]) != (None, None):
        raise ValueError("give either `A`, or `Q` and `K`")
    if (given["Q"] is None) != (given["K"] is None):
        raise ValueError("`Q` and `K` come together: give both, or `A`")
    for name in ("context_mean", "context_cov"):
        if given[name] is not None and given["context"] != LAW:
            raise ValueError(
                f"`{name}` is that of `context = {LAW}`: add that, or leave it out"
            )
