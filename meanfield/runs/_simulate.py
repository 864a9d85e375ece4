"""Keys in Python, as `meanfield simulate` has them on the command line."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from meanfield._array import real_array
from meanfield._reading import path_of
from meanfield.errors import InvalidInputError
from meanfield.spec import laid_over, located, parse, presets

from .execution._execute import execute
from .execution._result import Report, Result


def simulate(
    preset: str | None = None,
    /,
    *,
    out: str | os.PathLike[str] | None = None,
    report: Report | None = None,
    **keys: Any,
) -> Result:
    """Integrates what keys describe: those of `meanfield simulate --help`.

    Args:
        preset: a name of `meanfield list presets`, whose keys others are laid over.
        out: a folder for the frames; without it only the end is kept.
        report: called with the `Progress` between segments.
        **keys: numbers, texts, and for matrices lists or arrays, as `A=-1.0` (for -I),
            `d=2`, `t=3.0`, `init="moons"` or `init="@tokens.npy"`. Files are
            sought from the folder that Python runs in.

    Raises:
        InvalidInputError: if keys do not fit together, or `out` is taken.
        InputFileError: if a file that they name cannot be read.
        PrecisionError: if JAX rounds to single; `meanfield.set_precision("double")`.
        ResourceError: if memory, disk or folder will not do.
        UnknownNameError: if there is no such preset.

    Examples:
        >>> import meanfield
        >>> run = meanfield.simulate("blow-up")
        >>> run.outcome.name, round(run.outcome.t_star, 6)
        ('blow-up', 0.25)
        >>> A = np.array([[-1.0, 0.5], [0.0, -1.0]])
        >>> run = meanfield.simulate(A=A, d=2, n=20, t=1.0, frames=5, out="run.zarr")
        >>> run.dataset["x"].shape, run.plot.tokens().get_suptitle()
        ((5, 20, 2), 'softmax attention: tokens')
    """
    if isinstance(keys.get("init"), np.ndarray | jax.Array | list):
        raise InvalidInputError(
            "`init` names a cloud or a file: save tokens by `numpy.save` and give "
            "`init='@tokens.npy'`, or move them by `flow(attention, "
            "Points.uniform(tokens), times)`."
        )
    base: Mapping[str, Any] = presets[preset] if preset is not None else {}
    plain = {key: _plain(key, value) for key, value in keys.items()}
    newer = located(plain, Path.cwd())
    spec = parse(laid_over(base, newer))
    return execute(spec, out=None if out is None else path_of(out), report=report)


def _plain(key: str, value: Any) -> Any:
    """Arrays, of other libraries too, as the lists that a file of keys would have."""
    if value is None or isinstance(
        value, str | int | float | Sequence | Mapping | Path
    ):
        return value
    return np.asarray(real_array(key, value)).tolist()
