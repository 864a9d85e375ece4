"""The record of a training run: the file that says which other files are committed."""

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
from meanfield.storage.digests import (
    check_all_recorded,
    digests_by_name,
    missing_digests,
)
from meanfield.storage.disk import (
    add_digest,
    alteration_message,
    replace_text,
    validate_object,
)
from meanfield.storage.disk import read_record as read_sealed

from ._old_names import rename_record
from ._spec import TrainSpec

RECORD = "training.json"
OWNER = "training"
SCHEMA = "meanfield-training-3"
OLD_SCHEMAS = "meanfield-training-1", "meanfield-training-2"  # before version 0.3

ADDED = {"relative_perplexity"}  # measures that old entries of the log lack

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Weights = Annotated[str, StringConstraints(pattern=r"^weights-\d{4,9}\.safetensors$")]
Count = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(gt=0, lt=2**31)]
Numbers = list[FiniteFloat]
OfHeads = list[list[FiniteFloat]]  # numbers by layer and head


@with_config(ConfigDict(strict=True, extra="forbid"))
class StoredColumns(TypedDict):
    """JSON values of the statistics of column sums, for each seed."""

    rms: list[OfHeads]
    fraction_near: list[OfHeads]
    quantiles: list[list[list[Numbers]]]
    rms_first: list[OfHeads]
    relative_perplexity: NotRequired[list[OfHeads]]


@with_config(ConfigDict(strict=True, extra="forbid"))
class StoredEntry(TypedDict):
    """JSON values of a log entry: the measured quantities after an epoch."""

    epoch: Count
    test: dict[str, Numbers]
    columns: NotRequired[StoredColumns]
    train_loss: NotRequired[Numbers]


@with_config(ConfigDict(strict=True, extra="forbid"))
class StoredSpec(TypedDict):
    """JSON values of a training spec."""

    task: str
    options: dict[str, Any]
    attention: str
    attention_options: dict[str, Any]
    frozen_arrays: list[str]
    mask: NotRequired[str]
    epochs: Positive
    batch_size: Positive
    learning_rate: Annotated[PositiveFloat, Field(allow_inf_nan=False)]
    milestones: list[Count]
    optimiser: str
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    validation_split: bool
    annealing: NotRequired[tuple[str, FiniteFloat, Count]]
    distinct_samples: NotRequired[Positive]


@with_config(ConfigDict(strict=True, extra="forbid"))
class StoredRecord(TypedDict):
    """JSON values of a record, without its digest."""

    schema: str
    spec: StoredSpec
    samples_digest: Digest
    epoch: Count
    log: list[StoredEntry]
    state: tuple[str, Digest]
    weights: NotRequired[dict[Weights, Digest]]
    plugins: NotRequired[dict[str, Digest]]


@dataclass(frozen=True)
class Record:
    """Committed state of a training run.

    Attributes:
        spec: spec of the training run.
        samples_digest: SHA-256 of the samples of the task.
        epoch: number of completed epochs.
        log: entry for each completed epoch, and one before the first.
        state: name and SHA-256 of the file of arrays from which training resumes.
        weights: SHA-256 of each file of weights, by name.
        plugins: SHA-256 of each plugin of the training run, by name.
        has_digests: whether the weights have digests; the first records have none.

    Examples:
        >>> from meanfield.training import Recipe, Record, TrainSpec, Variant
        >>> recipe = Recipe(epochs=2, batch_size=100, learning_rate=1e-3)
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (0,))
        >>> Record(spec, samples_digest="…", epoch=1, log=(), state=("", "")).is_done
        False
    """

    spec: TrainSpec
    samples_digest: str
    epoch: int
    log: tuple[Mapping[str, Any], ...]
    state: tuple[str, str]
    weights: Mapping[str, str] = field(default_factory=dict)
    plugins: Mapping[str, str] = field(default_factory=dict)
    has_digests: bool = True

    @property
    def is_done(self) -> bool:
        """Whether all epochs are completed."""
        return self.epoch == self.spec.recipe.epochs


def write_record(folder: Path, record: Record) -> None:
    """Commits a record: replaces the file atomically.

    Raises:
        ResourceError: if it cannot be written; the previous record then remains.
    """
    body = {
        "schema": SCHEMA,
        "spec": record.spec.as_json(),
        "samples_digest": record.samples_digest,
        "epoch": record.epoch,
        "state": list(record.state),
        "log": list(record.log),
    }
    if record.has_digests:
        body |= {"weights": dict(record.weights), "plugins": dict(record.plugins)}
    text = json.dumps(add_digest(body), indent=1, allow_nan=False)
    replace_text(folder / RECORD, text + "\n")


def read_record(folder: Path) -> Record:
    """The last committed record of a training run.

    Raises:
        InputFileError: if there is no training run, or it needs a plugin.
        StoreError: if the record is damaged, or has another schema.
    """
    values = read_stored_record(folder)
    plugins = values.get("plugins", {})
    try:
        spec = TrainSpec.from_json(values["spec"])
    except UnknownNameError as error:
        if not plugins:
            raise
        raise InputFileError(
            missing_plugin_message(folder, next(iter(plugins)))
        ) from error
    except InvalidInputError as error:
        raise StoreError(alteration_message(folder / RECORD, str(error))) from error
    return Record(
        spec,
        values["samples_digest"],
        values["epoch"],
        tuple(values["log"]),
        values["state"],
        values.get("weights", {}),
        plugins,
        has_digests="weights" in values,
    )


def check_same_code(
    folder: Path, record: Record, plugins: Sequence[Path], *, is_exact: bool = False
) -> None:
    """Compares loaded plugins with those of a training run.

    The first versions recorded no digests of plugins; any plugins match their records.

    Args:
        folder: folder of the training run.
        record: its last record.
        plugins: loaded plugins.
        is_exact: whether further plugins are forbidden.

    Raises:
        InputFileError: if a plugin is missing, new or changed.
        InvalidInputError: if two plugins have the same name.
    """
    digests_by_name(plugins, owner=OWNER)
    for name in missing_digests(record.plugins, plugins, owner=OWNER):
        raise InputFileError(missing_plugin_message(folder, name))
    if is_exact and record.has_digests:
        check_all_recorded(record.plugins, plugins, owner=f"training `{folder}`")


def missing_plugin_message(folder: Path, plugin: str) -> str:
    """Error message about a plugin that a training run needs."""
    return (
        f"The training run `{folder}` needs its plugin `{plugin}`; give it with "
        "`--plugin`."
    )


def read_stored_record(folder: Path) -> StoredRecord:
    """The checked JSON values of a record; names are not looked up in registries.

    Raises:
        InputFileError: if there is no training run.
        StoreError: if the record is damaged, or has another schema.
    """
    file = folder / RECORD
    try:
        body = read_sealed(file, SCHEMA, OLD_SCHEMAS[0], OLD_SCHEMAS[1:])
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputFileError(
            f"There is no training run at `{folder}`; name the folder that `train "
            "start --out` wrote, or start a training run there."
        ) from error
    is_old = body.get("schema") != SCHEMA
    values = validate_object(_reader(), rename_record(body) if is_old else body, file)
    for problem in _contradictions(values):
        raise StoreError(alteration_message(file, problem))
    return values


@functools.cache
def _reader() -> TypeAdapter:
    return TypeAdapter(StoredRecord)


def _contradictions(values: StoredRecord) -> Iterator[str]:
    """Contradictions between values that have the right types."""
    spec, epoch, log = values["spec"], values["epoch"], values["log"]
    if epoch > spec["epochs"]:
        yield f"`epoch` is {epoch} of {spec['epochs']}"
    if [entry["epoch"] for entry in log] != list(range(epoch + 1)):
        yield f"`log` lacks an entry for one of the epochs 0 to {epoch}, or has others"
    if values["state"][0] != f"state-{epoch:04d}.safetensors":
        yield f"`state` does not name the state after epoch {epoch}"
    if ("weights" in values) != ("plugins" in values):
        yield "it has digests of weights or of plugins, but not of both"
    if any(epoch_of(name) > epoch for name in values.get("weights", {})):
        yield f"`weights` has files of epochs after {epoch}"
    yield from _shape_problems(log, len(spec["seeds"]))


def _shape_problems(log: list[StoredEntry], n_seeds: int) -> Iterator[str]:
    """Problems with the shapes of log entries, which must agree for all epochs."""
    try:
        shapes = [
            {name: np.shape(measures[name]) for name in measures.keys() - ADDED}
            for measures in [{**e["test"], **e.get("columns", {})} for e in log]
        ]
        losses = {np.shape(entry.get("train_loss", [])) for entry in log[1:]}
    except ValueError:
        yield "`log` has lists of unequal lengths"
        return
    if any(entry_shapes != shapes[0] for entry_shapes in shapes):
        yield "the entries of `log` have different quantities or shapes"
    if not losses <= {(n_seeds,)}:
        yield f"`train_loss` must have {n_seeds} numbers, one for each seed"
    for name, shape in shapes[0].items():
        if shape[0] != n_seeds or 0 in shape:
            yield f"`{name}` in `log` must have {n_seeds} values, one for each seed"


def epoch_of(name: str) -> int:
    """Epoch in the name of a file of weights."""
    return int(re.sub(r"\D", "", name))
