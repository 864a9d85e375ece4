"""Runs on disk: what was committed comes back bit for bit, whatever was killed."""

from ._export import export, table_bytes
from ._schema import (
    DIMS,
    ENDING_FLAGS,
    RESUMABLE,
    RUN,
    SCHEMA,
    SWEEP,
    SWEEP_SCHEMA,
    Ending,
    Kind,
    dims_of,
    kinds,
)
from ._store import RunStore
from ._tasks import TaskFolder, create_tasks, read_tasks, refuse_other
from ._writing import refuse_taken
from .disk import damaged, replace_file

__all__ = [
    "DIMS",
    "ENDING_FLAGS",
    "RESUMABLE",
    "RUN",
    "SCHEMA",
    "SWEEP",
    "SWEEP_SCHEMA",
    "Ending",
    "Kind",
    "RunStore",
    "TaskFolder",
    "create_tasks",
    "damaged",
    "dims_of",
    "export",
    "kinds",
    "read_tasks",
    "refuse_other",
    "refuse_taken",
    "replace_file",
    "table_bytes",
]
