"""Configuration key of the drift."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from meanfield.spec._grid import Strict
from meanfield.spec._keys import ARRAYS, Key

from ._matrices import Matrix, Numbers
from ._options import options_of

AFFINE = ("M", "b")
PERCEPTRON = ("W1", "b1", "W2", "b2")
_DRIFTS = "Mx + b (`M`, `b`) or W2 relu(W1 x + b1) + b2 (`W1`, `b1`, `W2`, `b2`)"


def _check_drift(drift: dict[str, Matrix]) -> dict[str, Matrix]:
    """Returns `drift` if it is an affine map or a perceptron.

    Raises:
        ValueError: naming a key that is missing, unknown or of the other kind.
    """
    names = list(drift)
    unknown_names = [name for name in names if name not in (*AFFINE, *PERCEPTRON)]
    if unknown_names:
        raise ValueError(f"has the unknown key `{unknown_names[0]}`: give {_DRIFTS}")
    perceptron_keys = [name for name in names if name in PERCEPTRON]
    if perceptron_keys and len(perceptron_keys) < len(names):
        raise ValueError(f"must be either {_DRIFTS}, not a mixture of both")
    missing = [name for name in PERCEPTRON[::2] if name not in names]
    if perceptron_keys and missing:
        raise ValueError(f"is a perceptron, which needs `{missing[0]}`")
    return drift


class DriftSpec(Strict):
    """The key of the drift, which is added to the velocity of the attention."""

    drift: Annotated[
        dict[str, Numbers] | None,
        BeforeValidator(options_of),
        AfterValidator(_check_drift),
        Key(
            is_rare=True,
            group="Attention",
            holds="options",
            files=ARRAYS,
            enters="dynamics",
            no_page="it has attention only",
        ),
        Field(examples=[{"M": -0.5, "b": 1.0}], min_length=1),
    ] = None
    """velocity added to each token: M=…,b=… for Mx + b, or W1=…,b1=…,W2=…,b2=… for W2
    relu(W1 x + b1) + b2"""
