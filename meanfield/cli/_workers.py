"""Further processes that work on the same sweep."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

from ._output import note

MAIN = "from meanfield.cli import main; main()"
PATIENCE = 0.4  # seconds to end in, less than an interrupted command has


class _Worker(NamedTuple):
    process: subprocess.Popen[bytes]
    complaints: IO[bytes]


class Workers:
    """Processes that each go on with a sweep, silently; they end with the block.

    Args:
        folder: the sweep.
        plugins: what each of them loads.
    """

    def __init__(self, folder: Path, plugins: Sequence[Path]) -> None:
        options = [part for file in plugins for part in ("--plugin", str(file))]
        command = [sys.executable, "-c", MAIN, "sweep", str(folder.absolute())]
        self._command = [*command, "--json", *options]
        self._workers: list[_Worker] = []

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process, _ in self._workers:
            process.terminate()
        for process, complaints in self._workers:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()  # what it had claimed is free again
                process.wait()
            complaints.close()

    def start(self, count: int) -> None:
        """Starts so many processes."""
        for _ in range(count):
            complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with its worker
            process = subprocess.Popen(
                self._command, stdout=subprocess.DEVNULL, stderr=complaints
            )
            self._workers.append(_Worker(process, complaints))

    def check(self) -> None:
        """Says which have failed, and forgets them; the others take their cells."""
        for worker in list(self._workers):
            code = worker.process.poll()
            if code is None:
                continue
            worker.complaints.seek(0)
            lines = worker.complaints.read().decode(errors="replace").splitlines()
            worker.complaints.close()
            self._workers.remove(worker)
            if code != 0:
                why = lines[-1] if lines else f"signal {-code}"
                note(f"a worker ended early ({why}); its cells go to the others")
