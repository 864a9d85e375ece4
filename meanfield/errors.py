"""Every exception that `meanfield` raises.

Each also derives from the built-in exception a caller would expect, so `except
ValueError` keeps working. Each carries the exit code the command line ends with.
"""

from typing_extensions import override


class MeanfieldError(Exception):
    """Base of all errors; the message is one line: what, where, what works.

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


class InvalidInputError(MeanfieldError, ValueError):
    """A shape, a value or a combination that cannot work.

    Examples:
        >>> from meanfield import Gaussian
        >>> Gaussian.from_moments([0.0], [[-1.0]])
        Traceback (most recent call last):
            ...
        meanfield.errors.InvalidInputError: `covariance` must be positive semidef...
    """


class UnknownNameError(MeanfieldError, KeyError):
    """A name that no registry holds; the message suggests a near one.

    Examples:
        >>> from meanfield import clouds
        >>> clouds["moon"]
        Traceback (most recent call last):
            ...
        meanfield.errors.UnknownNameError: There is no initial cloud `moon`; did...
    """

    @override
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class FrameIndexError(MeanfieldError, IndexError):
    """The number of a frame that a trajectory does not have.

    Examples:
        >>> from meanfield import Drift, Gaussian, flow
        >>> one = jnp.eye(1)
        >>> run = flow(Drift(-one), Gaussian(jnp.zeros(1), one), [0.0, 1.0])
        >>> run.at(7)
        Traceback (most recent call last):
            ...
        meanfield.errors.FrameIndexError: There is no frame 7: this trajectory ha...
    """


class WrongKindError(MeanfieldError, TypeError):
    """A value of a kind that means nothing where it was given: 0.5 for a frame.

    Examples:
        >>> from meanfield import Drift, Gaussian, flow
        >>> one = jnp.eye(1)
        >>> run = flow(Drift(-one), Gaussian(jnp.zeros(1), one), [0.0, 1.0])
        >>> run.at(0.5)
        Traceback (most recent call last):
            ...
        meanfield.errors.WrongKindError: Frames...asked for by a whole number; got 0.5.
    """


class PrecisionError(MeanfieldError, TypeError):
    """Double precision was given while JAX is set to round to single.

    Examples:
        >>> from meanfield.errors import PrecisionError
        >>> issubclass(PrecisionError, TypeError)
        True
    """


class NotClosedError(MeanfieldError, TypeError):
    """An attention that does not map Gaussians to Gaussians met a `Gaussian`.

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
    """Two parts that do not work together, such as `Masked` and `Sinkhorn`.

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

    @override
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ResourceError(MeanfieldError, RuntimeError):
    """A request that this machine cannot hold: memory, disk, a folder's permissions.

    Examples:
        >>> from meanfield.errors import ResourceError
        >>> ResourceError.exit_code
        4
    """

    exit_code = 4


class ProcessLost(MeanfieldError, RuntimeError):
    """One of the processes that compute a flow together ended before its time.

    Examples:
        >>> from meanfield.errors import ProcessLost
        >>> ProcessLost.exit_code
        8
    """

    exit_code = 8


class SimulationFailed(MeanfieldError, RuntimeError):
    """A flow that ended badly: `max-steps`, `not-finite` or `unconverged`.

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
        meanfield.errors.SimulationFailed: The flow ended as `max-steps` at t = 0...
    """

    exit_code = 5


class StoreError(MeanfieldError, RuntimeError):
    """A run store that is damaged, unfinished or not the run's own.

    Examples:
        >>> from meanfield.errors import StoreError
        >>> StoreError.exit_code
        7
    """

    exit_code = 7


class VerificationFailed(MeanfieldError, RuntimeError):
    """A statement that does not hold, a control that passes, a print that is true.

    Examples:
        >>> from meanfield.errors import VerificationFailed
        >>> VerificationFailed.exit_code
        6
    """

    exit_code = 6
