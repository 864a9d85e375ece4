"""Validation of the stored spec and outcomes of a run, without importing JAX."""

import functools
import json
from pathlib import Path
from typing import Annotated, Any, NoReturn, NotRequired

from pydantic import AfterValidator, NonNegativeInt, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from meanfield.endings import Status
from meanfield.errors import StoreError
from meanfield.spec import RunSpec, parse
from meanfield.storage import RUN, RunStore, damage_message, kinds

Number = float | None
Triple = tuple[Number, Number, Number]
Quadruple = tuple[Number, Number, Number, Number]


class Member(TypedDict):
    """Types of the JSON values of an `Outcome`; old stores lack some of them."""

    status: Annotated[int, AfterValidator(Status)] | None
    time: Number
    t_star: Number
    t_star_error: Number
    residual: Number
    n_accepted: NonNegativeInt
    n_rejected: NonNegativeInt
    sum_error: NotRequired[Number]
    predicted_blow_up: NotRequired[tuple[Number, Number] | None]
    error_estimate: NotRequired[Quadruple | None]
    convergence_failure: NotRequired[Triple | None]
    merges: NotRequired[list[Quadruple]]


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
    members: Any = store.state.get("members")
    try:
        members_reader().validate_json(json.dumps(members), strict=True)
    except ValidationError:
        raise_damaged(store.path, "its `members` are not outcomes of flows")
    if len(members) != store.sizes.get(RUN, 1):
        raise_damaged(store.path, f"it has {len(members)} members")
    return members


@functools.cache
def members_reader() -> TypeAdapter:
    """Pydantic's validator of the outcomes of all members."""
    return TypeAdapter(list[Member])


def raise_damaged(place: Path, reason: str) -> NoReturn:
    """Raises the error for damaged stored data.

    Raises:
        StoreError: always.
    """
    raise StoreError(damage_message(place, reason))
