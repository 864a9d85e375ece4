"""Tokens drawn over a density: one dataset made of two runs."""

import numpy as np
import xarray as xr

from meanfield.errors import InvalidInputError
from meanfield.plotting.reading.data import kind


def with_tokens(density: xr.Dataset, tokens: xr.Dataset) -> xr.Dataset:
    """A run of a density with added tokens; panels and movies draw these on top.

    Args:
        density: one run of a density.
        tokens: one run of tokens, with a frame at each time of the density; if it ends
            earlier, the tokens are NaN from then on.

    Raises:
        InvalidInputError: if the arguments are not such runs, or their times or
            dimensions differ.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import with_tokens
        >>> keys = {"A": -1.0, "t": 0.2, "frames": 2}
        >>> _ = runs.execute(spec.parse({**keys, "n": 5}), out=Path("tokens.zarr"))
        >>> _ = runs.execute(
        ...     spec.parse({**keys, "measure": "grid"}), out=Path("grid.zarr")
        ... )
        >>> data = [runs.dataset(Path(f"{name}.zarr")) for name in ("grid", "tokens")]
        >>> sorted(set(with_tokens(*data)) - set(data[0]))
        ['token_position', 'weight', 'x']
    """
    _check(density, tokens)
    times = density["time"].values
    last = tokens.sizes["time"] - 1
    frames = np.minimum(np.searchsorted(tokens["time"].values, times), last)
    x = tokens["x"].transpose("time", "token", "coord").values[frames].astype(float)
    x[times > tokens["time"].values[last]] = np.nan
    dataset = density.assign(
        x=(("time", "token", "coord"), x), weight=("token", tokens["weight"].values)
    )
    if "position" not in tokens:
        return dataset
    return dataset.assign(token_position=("token", tokens["position"].values))


def _check(density: xr.Dataset, tokens: xr.Dataset) -> None:
    if (kind(density), kind(tokens)) != ("grid", "points"):
        raise InvalidInputError(
            "`tokens` must be of kind `points`, and `density` of kind `grid`; got "
            f"{kind(tokens)} and {kind(density)}."
        )
    if "run" in density.dims or "run" in tokens.dims:
        raise InvalidInputError(
            "`tokens` and `density` must be single runs; got an ensemble. Use runs "
            "without `draws`."
        )
    if density.sizes["coord"] != tokens.sizes["coord"]:
        raise InvalidInputError(
            f"`tokens` and `density` must have the same dimension `d`; got "
            f"{tokens.sizes['coord']} and {density.sizes['coord']}."
        )
    times, token_times = density["time"].values, tokens["time"].values
    missing = times[(times <= token_times[-1]) & ~np.isin(times, token_times)]
    if missing.size or times[0] > token_times[-1]:
        t = (missing if missing.size else times)[0]
        raise InvalidInputError(
            f"The density has a frame at t = {t:.6g}, but the tokens have none at this "
            "time. Use the same `t`, `frames` and `spacing` for both runs."
        )
