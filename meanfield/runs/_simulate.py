"""`simulate`: the command `meanfield simulate` as a Python function."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from meanfield._array import real_array
from meanfield._reading import path_of
from meanfield.errors import InvalidInputError
from meanfield.spec import RunSpec, merge_values, parse, presets, resolve_paths

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
    """Integrates the flow that `keys` describe; `meanfield simulate --help` lists them.

    Args:
        preset: a name from `meanfield list presets`; `keys` override the preset.
        out: a folder for the frames; without it only the final state is kept.
        report: called with a `Progress` after each segment.
        **keys: numbers, strings, and lists or arrays for matrices, such as `A=-1.0`
            (for -I), `d=2`, `t=3.0`, `init="moons"` or `init="@tokens.npy"`. Relative
            paths start from the current working directory.

    Raises:
        InvalidInputError: if keys contradict each other, or `out` is not empty.
        InputFileError: if a file that a key names cannot be read.
        PrecisionError: if JAX is in single precision and the spec needs double; call
            `meanfield.set_precision("double")`.
        ResourceError: if there is not enough memory or disk space, or `out` cannot be
            written.
        UnknownNameError: if `preset` is not the name of a preset.

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
            "`init` must be the name of a cloud or `@FILE`; got an array. Save the "
            "tokens with `numpy.save` and pass `init='@tokens.npy'`, or call "
            "`flow(attention, Points.uniform(tokens), times)`."
        )
    folder = None if out is None else path_of(out)
    return execute(spec_of(preset, **keys), out=folder, report=report)


def spec_of(preset: str | None, /, **keys: Any) -> RunSpec:
    """The spec of a preset and of `keys`, which may be arrays.

    Raises:
        InvalidInputError: if keys contradict each other.
        UnknownNameError: if `preset` is not the name of a preset.

    Examples:
        >>> from meanfield import runs
        >>> runs.spec_of("blow-up", d=2).d
        2
    """
    base: Mapping[str, Any] = presets[preset] if preset is not None else {}
    plain = {key: _plain(key, value) for key, value in keys.items()}
    return parse(merge_values(base, resolve_paths(plain, Path.cwd())))


def _plain(key: str, value: Any) -> Any:
    """Converts an array from any library to nested lists, like those of a TOML file."""
    if value is None or isinstance(
        value, str | int | float | Sequence | Mapping | Path
    ):
        return value
    return np.asarray(real_array(key, value)).tolist()
