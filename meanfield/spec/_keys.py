"""Metadata of the keys of a spec, beyond type, default and description."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

GROUPS = ("Attention", "Start", "Grid", "Time", "Transformer", "Numerics")
"""Groups of keys in the help, in order."""

PARAMETERS = ("A", "Q", "K", "V", "epsilon", "beta", "heads", "scale", "mask")
"""Parameters of an attention; a model has its own values of these for each layer."""

ARRAYS = (".npy", ".csv")
"""Extensions of array files."""

SPHERES = ("circle", "zonal")
"""Measures on spheres, which have cells."""

ON_CELLS = ("grid", *SPHERES)
"""Measures that have cells instead of tokens."""

MOST_USED = "Most used"
"""Heading of the most used keys, which are listed before the groups."""

HEADINGS = (MOST_USED, *GROUPS)
"""Headings of the keys in the help and in the template file, in order."""

Group = Literal["Attention", "Start", "Grid", "Time", "Transformer", "Numerics"]
Holds = Literal["plain", "matrix", "array", "table", "options"]
Part = Literal["start", "dynamics", "draw", "times", "program"]


@dataclass(frozen=True, kw_only=True)
class Key:
    """Metadata of one key, from which every list of keys is derived.

    Attributes:
        group: group in the help; `None` if the key is not a command-line option.
        holds: kind of value: a `matrix`, whose numbers are stored in the spec; an
            `array`, which may stay in its file; a `table` of specs; the `options` of
            an attention or a drift; or `plain` for everything else.
        is_headwise: whether a list holds one matrix for each head.
        files: extensions of the files that `@FILE` may name.
        required_measure: the only built-in measure that uses the key, and the reason in
            messages, such as `applies only to grids`; a measure of a plugin may use it
            too, see `MeasureInfo.extra_keys`.
        excluded_measures: measures that do not use the key, with what they do instead.
        brings: what the key sets, such as `fixed steps`, and the keys that must then be
            left out, because they would have no effect.
        replaces: keys that are dropped when this one is given later.
        enters: the part of a flow that takes the key's value as an array; a key that
            enters the `program` changes what is compiled.
        no_axis: why a sweep cannot vary it; empty if it can.
        no_page: why a live page does not support it; empty if it does.
        page_help: help text for a live page, if it differs from the description.
        is_not_inherited: whether a run that starts from another run ignores that run's
            value of the key.
        is_forward_key: whether the forward pass of a network uses it.
        names: argument with which `meanfield list` lists the values, if they are names.
        is_in_title: whether titles show its value.
        most_used: whether the help lists it under "Most used".
        is_rare: whether only `--help-all` lists it.
        label: axis label in plots of a sweep.

    Examples:
        >>> from meanfield.spec import Key
        >>> Key(group="Start").group, Key().replaces
        ('Start', ())
    """

    group: Group | None = "Numerics"
    holds: Holds = "plain"
    is_headwise: bool = False
    files: tuple[str, ...] = ()
    required_measure: tuple[str, str] | None = None
    excluded_measures: Mapping[str, str] = field(default_factory=dict)
    brings: tuple[str, tuple[str, ...]] | None = None
    replaces: tuple[str, ...] = ()
    enters: Part = "program"
    no_axis: str = ""
    no_page: str = ""
    page_help: str = ""
    is_not_inherited: bool = False
    is_forward_key: bool = False
    names: str = ""
    is_in_title: bool = False
    most_used: bool = False
    is_rare: bool = False
    label: str = ""

    @property
    def heading(self) -> str | None:
        """Heading that the key is listed under; `None` if it is not an option."""
        return MOST_USED if self.most_used else self.group


@functools.cache
def keys_of(model: type[BaseModel]) -> dict[str, Key]:
    """Metadata of all keys of a pydantic model, by name.

    Raises:
        TypeError: if a field has no `Key`, or more than one.
    """
    rows = {}
    for name, info in model.model_fields.items():
        matches = [row for row in info.metadata if isinstance(row, Key)]
        if len(matches) != 1:
            raise TypeError(f"The key `{name}` needs one `Key`; got {len(matches)}.")
        rows[name] = matches[0]
    return rows
