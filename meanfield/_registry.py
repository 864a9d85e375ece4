"""Named objects: a registry maps names to objects and suggests similar names."""

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

from typing_extensions import override

from ._display import html_table
from .errors import UnknownNameError

T = TypeVar("T")


def suggestion(name: str, names: Mapping[str, object] | list[str]) -> str:
    """End of an error message: the nearest known name, or else all names."""
    candidate = nearest_name(name, names)
    return (
        f"did you mean `{candidate}`?" if candidate else f"known: {', '.join(names)}."
    )


def nearest_name(name: str, names: Mapping[str, object] | list[str]) -> str:
    """The known name nearest to `name`; an empty string if none is near.

    Names that `name` abbreviates come first: `--attn` suggests `--attention`, not
    `--at`.
    """
    name_by_casefold = {item.casefold(): item for item in names}
    wrong = name.casefold()
    whole = [item for item in name_by_casefold if _abbreviates(wrong, item)]
    matches = difflib.get_close_matches(wrong, whole, n=1, cutoff=0.0)
    matches = matches or difflib.get_close_matches(wrong, list(name_by_casefold), n=1)
    return name_by_casefold[matches[0]] if matches else ""


def _abbreviates(short: str, name: str) -> bool:
    """Whether `short` abbreviates `name`, as `--attn` abbreviates `--attention`.

    Both must begin with the same three letters, and `name` must contain the other
    letters of `short` in the same order.
    """
    letters = iter(name)
    begin, whole = short.lstrip("-")[:3], name.lstrip("-")
    is_subsequence = all(letter in letters for letter in short)
    return len(begin) == 3 and whole.startswith(begin) and is_subsequence


class Registry(Mapping[str, T], Generic[T]):
    """A read-only mapping from names to objects, filled by `register`.

    Args:
        kind: name for such an object in error messages, such as `"attention"`.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._items: dict[str, T] = {}
        self._modules: dict[str, str] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that registers an object under `name`.

        Raises:
            ValueError: if the name is taken.
        """

        def add(item: T) -> T:
            if name in self._items:
                raise ValueError(f"The {self._kind} `{name}` is registered twice.")
            self._items[name] = item
            return item

        return add

    def register_module(self, name: str, module: str) -> None:
        """Adds a name whose object `module` registers; it is imported at first use."""
        self._modules[name] = module

    @property
    def objects(self) -> list[T]:
        """The objects whose modules are imported already."""
        return [*self._items.values()]

    @override
    def __repr__(self) -> str:
        return f"<registry, {self._kind}: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        """HTML table of the names and the first docstring line of each object."""
        rows = {name: _first_doc_line(item) for name, item in self.items()}
        return html_table(f"registry, {self._kind}", rows)

    @override
    def __getitem__(self, name: str) -> T:
        if name not in self._items and name in self._modules:
            import_module(self._modules[name])
        if name not in self._items:
            hint = suggestion(str(name), [*self])
            raise UnknownNameError(f"There is no {self._kind} `{name}`; {hint}")
        return self._items[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter({**self._items, **self._modules})

    @override
    def __len__(self) -> int:
        return len({**self._items, **self._modules})


def _first_doc_line(item: object) -> str:
    """First docstring line of a function or a class; empty for other objects."""
    documentation = inspect.getdoc(item) if callable(item) else None
    return (documentation or "").split("\n", 1)[0]
