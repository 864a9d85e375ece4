"""Runs on disk: what was committed comes back bit for bit, whatever was killed."""

from ._export import export
from ._schema import DIMS, ENDINGS, RESUMABLE, SCHEMA, Ending
from ._store import RunStore

__all__ = ["DIMS", "ENDINGS", "RESUMABLE", "SCHEMA", "Ending", "RunStore", "export"]
