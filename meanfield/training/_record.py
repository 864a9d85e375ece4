"""The record of a training: the one file that says what of its folder is real."""

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NotRequired

import numpy as np
from pydantic import (
    ConfigDict,
    Field,
    FiniteFloat,
    PositiveFloat,
    StringConstraints,
    TypeAdapter,
    with_config,
)
from typing_extensions import TypedDict

from meanfield.errors import (
    InputFileError,
    InvalidInputError,
    StoreError,
    UnknownNameError,
)
from meanfield.storage.digests import check_none_new, digests_by_name, missing_digests
from meanfield.storage.disk import (
    altered_message,
    replace_text,
    sealed,
    validate_object,
)
from meanfield.storage.disk import read_record as read_sealed

from ._spec import TrainSpec

RECORD = "training.json"
OWNER = "training"
SCHEMA = "meanfield-training-2"
WITHOUT_DIGESTS = "meanfield-training-1"  # of version 0.2

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
WeightsFile = Annotated[
    str, StringConstraints(pattern=r"^weights-\d{4,9}\.safetensors$")
]
Count = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(gt=0, lt=2**31)]
Numbers = list[FiniteFloat]
OfHeads = list[list[FiniteFloat]]  # of each layer and head


@with_config(ConfigDict(strict=True, extra="forbid"))
class StoredColumns(TypedDict):
    """What is stored of the column sums of attention matrices, seed by seed."""

    rms: list[OfHeads]
    near: list[OfHeads]
    quantiles: list[list[list[Numbers]]]
    rms_first: list[OfHeads]


@with_config(ConfigDict(strict=True, extra="forbid"))
class StoredEntry(TypedDict):
    """An entry of the log: what was measured after an epoch, seed by seed."""

    epoch: Count
    test: dict[str, Numbers]
    columns: NotRequired[StoredColumns]
    train_loss: NotRequired[Numbers]


@with_config(ConfigDict(strict=True, extra="forbid"))
class StoredSpec(TypedDict):
    """The JSON values of a spec."""

    task: str
    options: dict[str, Any]
    attention: str
    attention_options: dict[str, Any]
    given: list[str]
    mask: NotRequired[str]
    epochs: Positive
    batch: Positive
    rate: Annotated[PositiveFloat, Field(allow_inf_nan=False)]
    drops: list[Count]
    optimiser: str
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    rehearsal: bool
    cooling: NotRequired[tuple[str, FiniteFloat, Count]]


@with_config(ConfigDict(strict=True, extra="forbid"))
class StoredRecord(TypedDict):
    """The JSON values of a record, without its digest."""

    schema: str
    spec: StoredSpec
    items: Digest
    epoch: Count
    log: list[StoredEntry]
    state: tuple[str, Digest]
    weights: NotRequired[dict[WeightsFile, Digest]]
    plugins: NotRequired[dict[str, Digest]]


@dataclass(frozen=True)
class Record:
    """What is committed of a training.

    Attributes:
        spec: what it is.
        items: the SHA-256 of the task's items.
        epoch: how many epochs are done.
        log: an entry for each of them, and one before the first.
        state: the name of the file of arrays to go on from, and its SHA-256.
        weights: the SHA-256 of each file of weights, by its name.
        plugins: the SHA-256 of each plugin that it was begun with, by its name.
        has_digests: whether the files were written with digests; version 0.2 wrote
            none, and what it wrote cannot be verified.

    Examples:
        >>> from meanfield.training import Recipe, Record, TrainSpec, Variant
        >>> recipe = Recipe(epochs=2, batch=100, rate=1e-3)
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (0,))
        >>> Record(spec, items="…", epoch=1, log=(), state=("", "")).is_done
        False
    """

    spec: TrainSpec
    items: str
    epoch: int
    log: tuple[Mapping[str, Any], ...]
    state: tuple[str, str]
    weights: Mapping[str, str] = field(default_factory=dict)
    plugins: Mapping[str, str] = field(default_factory=dict)
    has_digests: bool = True

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to train."""
        return self.epoch == self.spec.recipe.epochs


def write_record(folder: Path, record: Record) -> None:
    """Replaces the record in one step: the commit.

    Raises:
        ResourceError: if it cannot be written; the last commit then stands.
    """
    body = {
        "schema": SCHEMA if record.has_digests else WITHOUT_DIGESTS,
        "spec": record.spec.as_json(),
        "items": record.items,
        "epoch": record.epoch,
        "state": list(record.state),
        "log": list(record.log),
    }
    if record.has_digests:
        body |= {"weights": dict(record.weights), "plugins": dict(record.plugins)}
        body = sealed(body)
    replace_text(folder / RECORD, json.dumps(body, indent=1, allow_nan=False) + "\n")


def read_record(folder: Path) -> Record:
    """The last commit of a training.

    Raises:
        InputFileError: if there is no training, or it needs a plugin.
        StoreError: if the record is damaged, or has another schema.
    """
    values = stored_record(folder)
    plugins = values.get("plugins", {})
    try:
        spec = TrainSpec.from_json(values["spec"])
    except UnknownNameError as error:
        if not plugins:
            raise
        raise InputFileError(lacking(folder, next(iter(plugins)))) from error
    except InvalidInputError as error:
        raise StoreError(altered_message(folder / RECORD, str(error))) from error
    return Record(
        spec,
        values["items"],
        values["epoch"],
        tuple(values["log"]),
        values["state"],
        values.get("weights", {}),
        plugins,
        has_digests=values["schema"] == SCHEMA,
    )


def check_same_code(
    folder: Path, record: Record, plugins: Sequence[Path], *, is_exact: bool = False
) -> None:
    """Compares plugins with those that a training goes on by.

    A training of version 0.2 has no digests of plugins, and is believed.

    Args:
        folder: of the training.
        record: its last commit.
        plugins: those that are loaded.
        is_exact: whether there may be no others.

    Raises:
        InputFileError: if one is missing, new, or has changed since.
        InvalidInputError: if two have one name.
    """
    digests_by_name(plugins, owner=OWNER)
    for name in missing_digests(record.plugins, plugins, owner=OWNER):
        raise InputFileError(lacking(folder, name))
    if is_exact and record.has_digests:
        check_none_new(record.plugins, plugins, owner=f"training `{folder}`")


def lacking(folder: Path, plugin: str) -> str:
    """The message about a plugin that a training needs and was not given."""
    return (
        f"The training `{folder}` was begun with the plugin `{plugin}`; give it again "
        "by `--plugin`."
    )


def stored_record(folder: Path) -> StoredRecord:
    """The JSON values of a record, checked; nothing is asked of any registry.

    Raises:
        InputFileError: if there is no training.
        StoreError: if the record is damaged, or has another schema.
    """
    file = folder / RECORD
    try:
        body = read_sealed(file, SCHEMA, WITHOUT_DIGESTS)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputFileError(
            f"There is no training at `{folder}`; name the folder that `train start "
            "--out` wrote, or begin it there again."
        ) from error
    values = validate_object(_reader(), body, file)
    for problem in _contradictions(values):
        raise StoreError(altered_message(file, problem))
    return values


@functools.cache
def _reader() -> TypeAdapter:
    return TypeAdapter(StoredRecord)


def _contradictions(values: StoredRecord) -> Iterator[str]:
    """What no training has, though each value has the type of one."""
    spec, epoch, log = values["spec"], values["epoch"], values["log"]
    if epoch > spec["epochs"]:
        yield f"`epoch` is {epoch} of {spec['epochs']}"
    if [entry["epoch"] for entry in log] != list(range(epoch + 1)):
        yield f"`log` has not one entry for each of the epochs 0 to {epoch}"
    if values["state"][0] != f"state-{epoch:04d}.safetensors":
        yield f"`state` is not that of epoch {epoch}"
    if values["schema"] == SCHEMA and not {"weights", "plugins"} <= values.keys():
        yield "it has no digests of weights and plugins"
    if any(epoch_of(name) > epoch for name in values.get("weights", {})):
        yield f"`weights` has some after epoch {epoch}"
    yield from _misshapen(log, len(spec["seeds"]))


def _misshapen(log: list[StoredEntry], n_seeds: int) -> Iterator[str]:
    """What is wrong with the numbers of entries: these are the same, seed by seed."""
    try:
        shapes = [_shapes(entry) for entry in log]
        losses = {np.shape(entry.get("train_loss", [])) for entry in log[1:]}
    except ValueError:
        yield "`log` has lists of different lengths in one place"
        return
    if any(one != shapes[0] for one in shapes):
        yield "the entries of `log` have different measures"
    if not losses <= {(n_seeds,)}:
        yield f"`train_loss` has not {n_seeds} numbers, one for each seed"
    for name, shape in shapes[0].items():
        if shape[0] != n_seeds or 0 in shape:
            yield f"`{name}` in `log` has not {n_seeds} values, one for each seed"


def _shapes(entry: StoredEntry) -> dict[str, tuple[int, ...]]:
    """The shapes of what an entry measures of networks.

    Raises:
        ValueError: if lists in one place have different lengths.
    """
    measures = {**entry["test"], **entry.get("columns", {})}
    return {name: np.shape(values) for name, values in measures.items()}


def epoch_of(name: str) -> int:
    """The epoch in the name of a file of weights."""
    return int(re.sub(r"\D", "", name))
