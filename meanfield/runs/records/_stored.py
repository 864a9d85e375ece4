"""What the record of a run says of it, checked before it is believed; without JAX."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeGuard

from meanfield.endings import Status
from meanfield.errors import StoreError
from meanfield.spec import RunSpec, parse
from meanfield.storage import RUN, RunStore, damaged, kinds

_NUMBERS = ("time", "t_star", "t_star_error", "residual")  # or null
_COUNTS = ("accepted", "rejected")
LARGEST = int(sys.float_info.max)
_LAPSE = 3  # an error, its tolerance, and a number of iterations
_DOUBTS = 4  # of covariance and mean, and their parts by box and by cells


def stored_spec(store: RunStore) -> RunSpec:
    """The spec of a stored run, whose variables are those of what it moves.

    Raises:
        StoreError: if they are not, or there is no spec.
        InvalidInputError: if the spec is none.
    """
    spec = parse(store.spec, where=f"the spec of `{store.path}`")
    kind = kinds[spec.measure]
    names = {*kind.fixed, *(kind.moving if store.frames else ())}
    if not names <= store.names:
        refuse(store.path, f"it has no `{min(names - store.names)}`")
    if store.frames and spec.is_family != (RUN in store.sizes):
        refuse(store.path, "it holds one flow where its spec has many, or the reverse")
    return spec


def stored_members(store: RunStore) -> list[dict[str, Any]]:
    """How each draw of a stored run fared, as JSON values.

    Raises:
        StoreError: if that is not what is stored.
    """
    members = store.state.get("members")
    if not isinstance(members, list) or not all(map(_is_member, members)):
        refuse(store.path, "its `members` are not how flows fare")
    if len(members) != store.sizes.get(RUN, 1):
        refuse(store.path, f"it has {len(members)} members")
    return members


def _is_member(values: object) -> bool:
    if not isinstance(values, Mapping):
        return False
    status = values.get("status")
    return (
        (status is None or (_is_count(status) and status in set(Status)))
        and all(key in values for key in ("status", *_NUMBERS))
        and all(values[k] is None or is_number(values[k]) for k in _NUMBERS)
        and all(_is_count(values.get(key)) for key in _COUNTS)
        and (values.get("missed") is None or is_number(values["missed"]))
        and _are_numbers(values.get("due"), 2)  # the time, and its error
        and _are_numbers(values.get("doubt"), _DOUBTS)
        and _are_numbers(values.get("lapse"), _LAPSE)
    )


def _are_numbers(value: object, count: int) -> bool:
    """Whether there are none, or so many or nulls."""
    if value is None:
        return True
    return (
        isinstance(value, list)
        and len(value) == count
        and all(part is None or is_number(part) for part in value)
    )


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a JSON value is a number, and none that is beyond all floats."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= LARGEST
    return isinstance(value, float)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def refuse(place: Path, why: str) -> NoReturn:
    """Refuses something stored.

    Raises:
        StoreError: always.
    """
    raise StoreError(damaged(place, why))
