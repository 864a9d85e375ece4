"""Every exception that `meanfield` raises.

Each also derives from the built-in exception a caller would expect, so `except
ValueError` keeps working. Each carries the exit code the command line ends with.
"""

from typing_extensions import override


class MeanfieldError(Exception):
    """Base of all errors; the message is one line: what, where, what works."""

    exit_code = 2


class InvalidInputError(MeanfieldError, ValueError):
    """A shape, a value or a combination that cannot work."""


class UnknownNameError(MeanfieldError, KeyError):
    """A name that no registry holds; the message suggests a near one."""

    @override
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class FrameIndexError(MeanfieldError, IndexError):
    """The number of a frame that a trajectory does not have."""


class WrongKindError(MeanfieldError, TypeError):
    """A value of a kind that means nothing where it was given: 0.5 for a frame."""


class PrecisionError(MeanfieldError, TypeError):
    """Double precision was given while JAX is set to round to single."""


class NotClosedError(MeanfieldError, TypeError):
    """An attention that does not map Gaussians to Gaussians met a `Gaussian`."""


class UnsupportedError(MeanfieldError, TypeError):
    """Two parts that do not work together, such as `Masked` and `Sinkhorn`."""


class InputFileError(MeanfieldError, OSError):
    """A file that is missing, unreadable or not what it should be."""

    exit_code = 3

    @override
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ResourceError(MeanfieldError, RuntimeError):
    """A request that this machine cannot hold: memory, disk, a folder's permissions."""

    exit_code = 4


class SimulationFailed(MeanfieldError, RuntimeError):
    """A flow that ended badly: `max-steps`, `not-finite` or `unconverged`."""

    exit_code = 5


class StoreError(MeanfieldError, RuntimeError):
    """A run store that is damaged, unfinished or not the run's own."""

    exit_code = 7


class VerificationFailed(MeanfieldError, RuntimeError):
    """A statement that does not hold, a control that passes, a print that is true."""

    exit_code = 6
