"""Packing of arrays for JSON: deflated little-endian bytes in base64."""

import zlib
from base64 import b64encode
from typing import Any

import numpy as np

# Positions are stored as integers, in units of 1/`STEPS` of the cloud's width.
STEPS = 2**16 - 1
# Higher compression levels save only one per cent and take twice as long.
_LEVEL = 6

PackedArray = dict[str, Any]


def pack(values: np.ndarray) -> PackedArray:
    """Pack an array without loss: floats, or integers below $2^{16}$."""
    kind = "f8" if values.dtype.kind == "f" else "u2"
    data = np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
    return {"packed": kind, "shape": list(values.shape), "bytes": _text(data)}


def pack_differences(values: np.ndarray) -> PackedArray:
    r"""Pack 16-bit integers as second differences along the first axis.

    Paths are smooth, so the differences $q_t - 2q_{t-1} + q_{t-2}$ modulo $2^{16}$ are
    small. They are zigzag-encoded, and low bytes are stored before high bytes.
    """
    whole = values.astype(np.uint16)
    residuals = whole.copy()
    residuals[1:] -= whole[:-1]
    residuals[2:] -= whole[1:-1] - whole[:-2]
    signs = residuals.view(np.int16)
    zigzag = ((signs << 1) ^ (signs >> 15)).view(np.uint16)
    planes = np.stack([zigzag & 0xFF, zigzag >> 8]).astype(np.uint8)
    shape = list(values.shape)
    return {"packed": "d2", "shape": shape, "bytes": _text(planes.tobytes())}


def pack_positions(x: np.ndarray) -> PackedArray:
    """Pack positions (time, token, coord) with an error of at most half a step.

    A step is $1/(2^{16} - 1)$ of the width of the cloud in its frame and coordinate, so
    that clouds which shrink or grow by decades have the same relative resolution. `low`
    and `step` have shape (time, coord). `steps` are the positions above `low` in units
    of `step`, with shape (time, coord, token).
    """
    low, high = x.min(axis=1), x.max(axis=1)
    step = (high - low) / STEPS
    shares = (x - low[:, None]) / np.where(step > 0, step, 1.0)[:, None]
    steps = np.clip(np.rint(shares), 0, STEPS).swapaxes(1, 2)
    return {"low": pack(low), "step": pack(step), "steps": pack_differences(steps)}


def _text(data: bytes) -> str:
    return b64encode(zlib.compress(data, _LEVEL)).decode()
