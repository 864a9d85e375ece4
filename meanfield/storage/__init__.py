"""Stored runs: committed frames are safe even if the writer is killed."""

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
from ._tasks import TaskFolder, check_task_folder, create_tasks, read_tasks
from ._writing import check_folder_free
from .disk import damage_message, replace_file

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
    "check_folder_free",
    "check_task_folder",
    "create_tasks",
    "damage_message",
    "dims_of",
    "export",
    "kinds",
    "read_tasks",
    "replace_file",
    "table_bytes",
]
