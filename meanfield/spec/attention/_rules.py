"""Rules for configuration keys of an attention that exclude or need each other."""

from collections.abc import Mapping
from typing import Any

from ._context import LAW


def check_attention(values: Mapping[str, Any]) -> None:
    """Checks that the configuration keys of an attention are compatible.

    Args:
        values: the values of all keys.

    Raises:
        ValueError: naming incompatible keys, and what to do.
    """
    if values["A"] is not None and (values["Q"], values["K"]) != (None, None):
        raise ValueError("give either `A`, or `Q` and `K`")
    if (values["Q"] is None) != (values["K"] is None):
        raise ValueError(
            "`Q` and `K` must be given together: add the missing one, or use `A`"
        )
    for name in ("context_mean", "context_cov"):
        if values[name] is not None and values["context"] != LAW:
            raise ValueError(
                f"`{name}` needs `context = {LAW}`: give both keys, or neither"
            )
