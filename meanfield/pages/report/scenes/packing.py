"""Arrays as JSON: little-endian bytes, deflated, in base64; positions in 16 bits."""

import zlib
from base64 import b64encode
from typing import Any

import numpy as np

# Positions are whole steps of a frame's width, so many of them.
STEPS = 2**16 - 1
# Beyond this level a page shrinks by a per cent, and takes twice as long to make.
_LEVEL = 6

Packed = dict[str, Any]


def packed(values: np.ndarray) -> Packed:
    """An array of floats, kept bit for bit, or of whole numbers below $2^{16}$."""
    kind = "f8" if values.dtype.kind == "f" else "u2"
    data = np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
    return {"packed": kind, "shape": list(values.shape), "bytes": _text(data)}


def differenced(values: np.ndarray) -> Packed:
    r"""Numbers of 16 bits by their second differences along the first axis.

    Paths are smooth, so that these are small: $q_t - 2q_{t-1} + q_{t-2}$ modulo
    $2^{16}$, folded so that small negative ones are small, low bytes before high ones.
    """
    whole = values.astype(np.uint16)
    residuals = whole.copy()
    residuals[1:] -= whole[:-1]
    residuals[2:] -= whole[1:-1] - whole[:-2]
    signs = residuals.view(np.int16)
    folded = ((signs << 1) ^ (signs >> 15)).view(np.uint16)
    planes = np.stack([folded & 0xFF, folded >> 8]).astype(np.uint8)
    shape = list(values.shape)
    return {"packed": "d2", "shape": shape, "bytes": _text(planes.tobytes())}


def quantised(x: np.ndarray) -> Packed:
    """Positions (time, token, coord), each within half a step of where it was.

    A step is $2^{-16}$ of the width of the cloud in its frame and its coordinate, so
    that clouds which shrink or grow by decades are told as finely. `low` and `step` are
    of shape (time, coord), `steps` of (time, coord, token).
    """
    low, high = x.min(axis=1), x.max(axis=1)
    step = (high - low) / STEPS
    shares = (x - low[:, None]) / np.where(step > 0, step, 1.0)[:, None]
    steps = np.clip(np.rint(shares), 0, STEPS).swapaxes(1, 2)
    return {
        "low": packed(low),
        "step": packed(step),
        "steps": differenced(steps),
    }


def _text(data: bytes) -> str:
    return b64encode(zlib.compress(data, _LEVEL)).decode()
