"""Every exception that `meanfield` raises.

Each also derives from the built-in exception that a caller would expect, such as
`ValueError`, and has the exit code with which the command line ends.
"""

from typing_extensions import override


class MeanfieldError(Exception):
    """Base class of all errors; the message is one line that names a remedy.

    Examples:
        >>> from meanfield import attentions
        >>> from meanfield.errors import MeanfieldError
        >>> try:
        ...     attentions["sofmax"]
        ... except MeanfieldError as error:
        ...     print(error, error.exit_code)
        There is no attention `sofmax`; did you mean `softmax`? 2
    """

    exit_code = 2

    @override
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class InvalidInputError(MeanfieldError, ValueError):
    """An invalid shape, value or combination of values.

    Examples:
        >>> from meanfield import Gaussian
        >>> Gaussian.from_moments([0.0], [[-1.0]])
        Traceback (most recent call last):
            ...
        meanfield.errors.InvalidInputError: `covariance` must be positive semidef...
    """


class UnknownNameError(MeanfieldError, KeyError):
    """A name that is not registered; the message suggests a similar one.

    Examples:
        >>> from meanfield import clouds
        >>> clouds["moon"]
        Traceback (most recent call last):
            ...
        meanfield.errors.UnknownNameError: There is no initial cloud `moon`; did...
    """


class FrameIndexError(MeanfieldError, IndexError):
    """A frame index that a trajectory does not have.

    Examples:
        >>> from meanfield import Drift, Gaussian, flow
        >>> one = jnp.eye(1)
        >>> run = flow(Drift(-one), Gaussian(jnp.zeros(1), one), [0.0, 1.0])
        >>> run.frame(7)
        Traceback (most recent call last):
            ...
        meanfield.errors.FrameIndexError: There is no frame 7: this trajectory ha...
    """


class WrongKindError(MeanfieldError, TypeError):
    """A value of the wrong type, such as 0.5 for a frame index.

    Examples:
        >>> from meanfield import Drift, Gaussian, flow
        >>> one = jnp.eye(1)
        >>> run = flow(Drift(-one), Gaussian(jnp.zeros(1), one), [0.0, 1.0])
        >>> run.frame(0.5)
        Traceback (most recent call last):
            ...
        meanfield.errors.WrongKindError: The index...must be a whole number; got 0.5.
    """


class PrecisionError(MeanfieldError, TypeError):
    """An array in double precision while JAX is set to single precision.

    Examples:
        >>> from meanfield.errors import PrecisionError
        >>> issubclass(PrecisionError, TypeError)
        True
    """


class NotClosedError(MeanfieldError, TypeError):
    """A `Gaussian` was given to an attention that does not map Gaussians to Gaussians.

    Examples:
        >>> from meanfield import Gaussian, attentions
        >>> one = jnp.eye(1)
        >>> sigmoid = attentions["sigmoid"](one, one, one)
        >>> try:
        ...     sigmoid.field(0.0, Gaussian(jnp.zeros(1), one))
        ... except TypeError as error:
        ...     print(str(error).split(";")[0])
        `sigmoid` attention does not keep Gaussians Gaussian
    """


class UnsupportedError(MeanfieldError, TypeError):
    """An unsupported combination of parts, such as `Masked` and `Sinkhorn`.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import scalings
        >>> from meanfield.scores import Dot, Masked, causal
        >>> mu = Points.uniform([[0.0], [1.0]], position=[0.0, 1.0])
        >>> score = Masked(Dot(jnp.eye(1), jnp.eye(1)), causal)
        >>> try:
        ...     scalings(score, mu)
        ... except TypeError as error:
        ...     print(str(error).split(" (")[0])
        Sinkhorn cannot mask its scores
    """


class InputFileError(MeanfieldError, OSError):
    """A file that is missing, unreadable or not what it should be.

    Examples:
        >>> import meanfield
        >>> meanfield.open("nowhere.zarr")
        Traceback (most recent call last):
            ...
        meanfield.errors.InputFileError: There is no run at `nowhere.zarr`...
    """

    exit_code = 3


class ResourceError(MeanfieldError, RuntimeError):
    """A lack of memory, of disk space or of permission to write to a folder.

    Examples:
        >>> from meanfield.errors import ResourceError
        >>> ResourceError.exit_code
        4
    """

    exit_code = 4


class ProcessLostError(MeanfieldError, RuntimeError):
    """One of the processes that compute a flow together ended too early.

    Examples:
        >>> from meanfield.errors import ProcessLostError
        >>> ProcessLostError.exit_code
        8
    """

    exit_code = 8


class SimulationError(MeanfieldError, RuntimeError):
    """A flow that failed, with status `max-steps`, `not-finite` or `unconverged`.

    Examples:
        >>> from meanfield import Gaussian, adaptive, attentions, flow
        >>> one = jnp.eye(1)
        >>> start, few = Gaussian(jnp.zeros(1), one), adaptive(max_steps=2)
        >>> softmax = attentions["softmax"](-one, one, one)
        >>> run = flow(softmax, start, [0.0, 9.0], stepping=few)
        >>> print(run.status)
        max-steps
        >>> run.raise_for_status().final
        Traceback (most recent call last):
            ...
        meanfield.errors.SimulationError: The flow ended with status `max-steps` at...
    """

    exit_code = 5


class StoreError(MeanfieldError, RuntimeError):
    """A run store that is damaged, unfinished or belongs to another run.

    Examples:
        >>> from meanfield.errors import StoreError
        >>> StoreError.exit_code
        7
    """

    exit_code = 7


class VerificationError(MeanfieldError, RuntimeError):
    """A verification that failed.

    Either a statement does not hold, its control passes although it should fail, or a
    formula holds as printed although it is listed as a misprint.

    Examples:
        >>> from meanfield.errors import VerificationError
        >>> VerificationError.exit_code
        6
    """

    exit_code = 6
