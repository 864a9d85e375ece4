"""What is said of a file that the system refuses to write."""

from pathlib import Path

from meanfield.errors import ResourceError


def unwritable(path: Path, error: OSError) -> ResourceError:
    """The error for a file that the system refuses to write."""
    reason = error.strerror or str(error)
    return ResourceError(
        f"Cannot write `{path}`: {reason}; choose an existing, writable folder."
    )
