"""Work side by side: threads that share this process, and processes of their own."""

from ._processes import Answer as Answer
from ._processes import Processes as Processes
from ._processes import WorkerLost as WorkerLost
from ._processes import threads as threads
