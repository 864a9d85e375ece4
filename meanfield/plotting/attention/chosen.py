"""What a reader chooses of attention matrices: heads, and the token that looks."""

import numpy as np
import xarray as xr

from meanfield.errors import InvalidInputError

_MOST = 12  # heads in one figure


def chosen_heads(numbers: list[int], chosen: tuple[int, ...]) -> list[int]:
    """Where the heads of these numbers stand among all.

    Raises:
        InvalidInputError: if there is no such head, or they are too many.
    """
    missing = [head for head in chosen if head not in numbers]
    if missing:
        last = f"0 to {len(numbers) - 1}"
        is_plain = numbers == list(range(len(numbers)))
        there = last if is_plain and len(numbers) > 1 else ", ".join(map(str, numbers))
        raise InvalidInputError(
            f"`heads` must be those of this run, {there}; got {missing[0]}."
        )
    if len(chosen) > _MOST:
        raise InvalidInputError(
            f"`heads` must be at most {_MOST}, to be seen; got {len(chosen)}."
        )
    return [numbers.index(head) for head in chosen]


def query_index(run: xr.Dataset, query: str) -> int:
    """The token that a word, or a number from 0, names.

    Raises:
        InvalidInputError: if it names none, or several.
    """
    count = run.sizes["query"]
    words = run["word"].values.astype(str).tolist() if "word" in run else []
    places = np.flatnonzero(np.array(words) == query) if words else np.empty(0, int)
    if places.size > 1:
        numbers = ", ".join(str(place) for place in places)
        raise InvalidInputError(
            f"`query` must name one token, and `{query}` stands at {numbers}: give one "
            "of these numbers."
        )
    if places.size == 1:
        return int(places[0])
    if query.isdecimal() and int(query) < count:
        return int(query)
    known = "a word of the text, or " if words else ""
    raise InvalidInputError(
        f"`query` must be {known}the number of a token, 0 to {count - 1}; got "
        f"`{query}`."
    )


def query_name(run: xr.Dataset, index: int) -> str:
    """A token by its word, if it has one, and its number."""
    if "word" not in run:
        return f"token {index}"
    return f"“{run['word'].values[index]}” (token {index})"
