"""Stored runs: committed frames are safe even if the writer is killed.

Names are imported at first use, so that a store can be read without xarray.
"""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy_exports

if TYPE_CHECKING:
    from ._dataset import lazy_numbers as lazy_numbers
    from ._export import export as export
    from ._export import table_bytes as table_bytes
    from ._schema import DIMS as DIMS
    from ._schema import ENDING_FLAGS as ENDING_FLAGS
    from ._schema import RESUMABLE as RESUMABLE
    from ._schema import RUN as RUN
    from ._schema import SCHEMA as SCHEMA
    from ._schema import SWEEP as SWEEP
    from ._schema import SWEEP_SCHEMA as SWEEP_SCHEMA
    from ._schema import Ending as Ending
    from ._schema import Kind as Kind
    from ._schema import dims_of as dims_of
    from ._schema import kinds as kinds
    from ._store import RunStore as RunStore
    from ._tasks import TaskFolder as TaskFolder
    from ._tasks import check_task_folder as check_task_folder
    from ._tasks import create_tasks as create_tasks
    from ._tasks import read_tasks as read_tasks
    from ._writing import check_folder_free as check_folder_free
    from .disk import damage_message as damage_message
    from .disk import replace_file as replace_file

__getattr__, __dir__, __all__ = lazy_exports(__name__)
