"""What each key of a spec says of itself, besides its type, default and description."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

GROUPS = ("Attention", "Start", "Grid", "Time", "Transformer", "Numerics")
"""Of the keys in the help, in its order."""

PARAMETERS = ("A", "Q", "K", "V", "epsilon", "heads", "scale", "mask")
"""Of an attention: what a model, and each of its layers, has of its own."""

ARRAYS = (".npy", ".csv")
"""Endings of the names of files that hold arrays."""

MOST_USED = "Most used"
"""The heading of the keys that are typed most, above those of the groups."""

HEADINGS = (MOST_USED, *GROUPS)
"""Over the keys, in the help and in a file of all keys, in their order."""

Group = Literal["Attention", "Start", "Grid", "Time", "Transformer", "Numerics"]
Holds = Literal["plain", "matrix", "array", "table", "options"]
Part = Literal["start", "dynamics", "draw", "times", "program"]


@dataclass(frozen=True, kw_only=True)
class Key:
    """The row of one key, from which all lists of keys are asked.

    Attributes:
        group: of the help; none for what is no option of the command line.
        holds: a `matrix`, whose numbers a stored spec holds; the `array` of a file; a
            `table` of specs; the `options` of a variant; or something `plain`.
        of_heads: whether a list of it has a matrix for each head.
        files: endings of the names of files that `@FILE` may stand for.
        only: the one measure that knows it, and what it is, as `is a key of grids`;
            a measure of a plugin may know it too: see `Moved`.
        never: measures to which it means nothing, and what they do instead.
        brings: what it brings, and the keys that then do nothing.
        replaces: older keys that give way to it.
        enters: the part of a flow that its numbers enter as an array; what enters the
            `program` changes what is compiled.
        no_axis: why no sweep varies it.
        no_page: why a live page has no use for it.
        on_page: what it means to a live page, where that is not what it means else.
        left_behind: whether a run that starts from another takes no value of it over.
        in_pass: whether the forward pass of a network has a use for it.
        names: what `meanfield list` calls the names that it takes, if it takes names.
        titled: whether titles name its value.
        most_used: whether it is typed most, with eight other keys and `--out`.
        label: of the axis along which a sweep varies it.

    Examples:
        >>> from meanfield.spec import Key
        >>> Key(group="Start").group, Key().replaces
        ('Start', ())
    """

    group: Group | None = "Numerics"
    holds: Holds = "plain"
    of_heads: bool = False
    files: tuple[str, ...] = ()
    only: tuple[str, str] | None = None
    never: Mapping[str, str] = field(default_factory=dict)
    brings: tuple[str, tuple[str, ...]] | None = None
    replaces: tuple[str, ...] = ()
    enters: Part = "program"
    no_axis: str = ""
    no_page: str = ""
    on_page: str = ""
    left_behind: bool = False
    in_pass: bool = False
    names: str = ""
    titled: bool = False
    most_used: bool = False
    label: str = ""

    @property
    def heading(self) -> str | None:
        """What it stands under where keys are listed; none where it is no option."""
        return MOST_USED if self.most_used else self.group


@functools.cache
def keys_of(model: type[BaseModel]) -> dict[str, Key]:
    """The rows of all keys of a model, by name.

    Raises:
        TypeError: naming a key that has none.
    """
    rows = {}
    for name, info in model.model_fields.items():
        own = [row for row in info.metadata if isinstance(row, Key)]
        if len(own) != 1:
            raise TypeError(f"The key `{name}` needs one `Key`; it has {len(own)}.")
        rows[name] = own[0]
    return rows
