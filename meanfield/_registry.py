"""Named objects: a registry maps a name to an object and suggests near misses."""

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from typing_extensions import override

from ._display import listed
from .errors import UnknownNameError

T = TypeVar("T")


def suggestion(name: str, known: Mapping[str, object] | list[str]) -> str:
    """The end of an error message: the nearest known name, or all of them."""
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else f"known: {', '.join(known)}."


def nearest(name: str, known: Mapping[str, object] | list[str]) -> str:
    """The known name that a wrong one may stand for; an empty text if none is near.

    Of names that it abbreviates the one most like it comes before any other: `--attn`
    is nearer to `--attention` than to `--at`.
    """
    folded = {item.casefold(): item for item in known}
    wrong = name.casefold()
    whole = [item for item in folded if _abbreviates(wrong, item)]
    near = difflib.get_close_matches(wrong, whole, n=1, cutoff=0.0)
    near = near or difflib.get_close_matches(wrong, list(folded), n=1)
    return folded[near[0]] if near else ""


def _abbreviates(short: str, name: str) -> bool:
    """Whether a name begins with the same three letters and has the others in order."""
    letters = iter(name)
    begin, whole = short.lstrip("-")[:3], name.lstrip("-")
    in_order = all(letter in letters for letter in short)
    return len(begin) == 3 and whole.startswith(begin) and in_order


class Registry(Mapping[str, T], Generic[T]):
    """A read-only mapping from names to objects, filled by `register`.

    Args:
        kind: what the objects are, for messages: `"attention"`.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._items: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that files an object under `name`.

        Raises:
            ValueError: if the name is taken.
        """

        def add(item: T) -> T:
            if name in self._items:
                raise ValueError(f"The {self._kind} `{name}` is registered twice.")
            self._items[name] = item
            return item

        return add

    @override
    def __repr__(self) -> str:
        return f"<registry, {self._kind}: {', '.join(self._items)}>"

    def _repr_html_(self) -> str:
        """A table of the names, with the first line that is documented of each."""
        rows = {name: _about(item) for name, item in self._items.items()}
        return listed(f"registry, {self._kind}", rows)

    @override
    def __getitem__(self, name: str) -> T:
        if name not in self._items:
            near = suggestion(str(name), self._items)
            raise UnknownNameError(f"There is no {self._kind} `{name}`; {near}")
        return self._items[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    @override
    def __len__(self) -> int:
        return len(self._items)


def _about(item: object) -> str:
    """The first line of the documentation of a function or a class."""
    documentation = inspect.getdoc(item) if callable(item) else None
    return (documentation or "").split("\n", 1)[0]
