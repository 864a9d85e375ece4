"""Validation of the stored spec and outcomes of a run, without importing JAX."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeGuard

from meanfield.endings import Status
from meanfield.errors import StoreError
from meanfield.spec import RunSpec, parse
from meanfield.storage import RUN, RunStore, damage_message, kinds

_NUMBERS = ("time", "t_star", "t_star_error", "residual")  # each a number or null
_COUNTS = ("n_accepted", "n_rejected")
LARGEST = int(sys.float_info.max)
_CONVERGENCE_SIZE = 3  # fields: error, tolerance, number of iterations
_ESTIMATE_SIZE = 4  # number of fields of an `ErrorEstimate`


def load_spec(store: RunStore) -> RunSpec:
    """The spec of a stored run, checked against its variables.

    Raises:
        StoreError: if there is no spec, or the variables do not match it.
        InvalidInputError: if the spec is invalid.
    """
    spec = parse(store.spec, where=f"the spec of `{store.path}`")
    kind = kinds[spec.measure]
    names = {*kind.static, *(kind.moving if store.frames else ())}
    if not names <= store.names:
        raise_damaged(store.path, f"it has no `{min(names - store.names)}`")
    if store.frames and spec.is_family != (RUN in store.sizes):
        raise_damaged(
            store.path, "it holds one flow and its spec has several, or the reverse"
        )
    return spec


def load_members(store: RunStore) -> list[dict[str, Any]]:
    """The outcome of each member of a stored run, as JSON values.

    Raises:
        StoreError: if they are damaged.
    """
    members = store.state.get("members")
    if not isinstance(members, list) or not all(map(_is_member, members)):
        raise_damaged(store.path, "its `members` are not outcomes of flows")
    if len(members) != store.sizes.get(RUN, 1):
        raise_damaged(store.path, f"it has {len(members)} members")
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
        and (values.get("sum_error") is None or is_number(values["sum_error"]))
        and _are_numbers(values.get("predicted_blow_up"), 2)  # time and error
        and _are_numbers(values.get("error_estimate"), _ESTIMATE_SIZE)
        and _are_numbers(values.get("convergence_failure"), _CONVERGENCE_SIZE)
        and all(_are_numbers(row, 4) for row in values.get("merges", ()))
    )


def _are_numbers(value: object, count: int) -> bool:
    """Whether a JSON value is null, or a list of `count` numbers or nulls."""
    if value is None:
        return True
    return (
        isinstance(value, list)
        and len(value) == count
        and all(part is None or is_number(part) for part in value)
    )


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a JSON value is a number that a float can hold."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= LARGEST
    return isinstance(value, float)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def raise_damaged(place: Path, reason: str) -> NoReturn:
    """Raises the error for damaged stored data.

    Raises:
        StoreError: always.
    """
    raise StoreError(damage_message(place, reason))
