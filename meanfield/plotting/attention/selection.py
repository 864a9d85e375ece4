"""Selection of heads and of a query token in attention matrices."""

import numpy as np
import xarray as xr

from meanfield.errors import InvalidInputError


def head_indices(
    numbers: list[int], heads: tuple[int, ...], max_heads: int
) -> list[int]:
    """The indices of the heads with the given numbers.

    Raises:
        InvalidInputError: if one of the heads does not exist, or there are too many.
    """
    missing = [head for head in heads if head not in numbers]
    if missing:
        last = f"0 to {len(numbers) - 1}"
        is_plain = numbers == list(range(len(numbers)))
        valid_heads = (
            last if is_plain and len(numbers) > 1 else ", ".join(map(str, numbers))
        )
        raise InvalidInputError(
            f"`heads` must list heads of this run, {valid_heads}; got {missing[0]}."
        )
    if len(heads) > max_heads:
        raise InvalidInputError(
            f"`heads` must list at most {max_heads} heads; got {len(heads)}."
        )
    return [numbers.index(head) for head in heads]


def query_index(run: xr.Dataset, query: str) -> int:
    """The index of a token, given by its word or by its number, counted from 0.

    Raises:
        InvalidInputError: if no token or several tokens match.
    """
    count = run.sizes["query"]
    words = run["word"].values.astype(str).tolist() if "word" in run else []
    places = np.flatnonzero(np.array(words) == query) if words else np.empty(0, int)
    if places.size > 1:
        numbers = ", ".join(str(place) for place in places)
        raise InvalidInputError(
            f"`query` must name one token; `{query}` occurs at the tokens "
            f"{numbers}. Use one of these indices."
        )
    if places.size == 1:
        return int(places[0])
    if query.isdecimal() and int(query) < count:
        return int(query)
    hint = "a word of the text, or " if words else ""
    raise InvalidInputError(
        f"`query` must be {hint}the index of a token, from 0 to {count - 1}; got "
        f"`{query}`."
    )


def query_name(run: xr.Dataset, index: int) -> str:
    """The name of a token in titles: its word, if it has one, and its number."""
    if "word" not in run:
        return f"token {index}"
    return f"“{run['word'].values[index]}” (token {index})"
