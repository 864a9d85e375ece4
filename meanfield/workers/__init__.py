"""Parallel work: threads of this process, and worker processes."""

from ._processes import Answer as Answer
from ._processes import Processes as Processes
from ._processes import WorkerLost as WorkerLost
from ._processes import threads as threads
