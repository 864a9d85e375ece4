"""The panel `density`: a density over time, or in two dimensions at several times."""

import xarray as xr
from matplotlib.figure import Figure

from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.panels import (
    annotate,
    ending_note,
    registered_panel,
    titled_figure,
)
from meanfield.plotting.reading.data import runs
from meanfield.plotting.reading.density import density_run

from .angles import draw_angles, is_on_sphere
from .frames import draw_frames, frames_size
from .line import draw_line
from .views import mass_note


@registered_panel("density")
def density(dataset: xr.Dataset) -> Figure:
    r"""The density $\rho(t, x)$, with the box of its grid and with quantiles.

    In one dimension it is drawn over time, with paths of quantiles; in two dimensions
    as maps of at most six frames, with contours that contain 50, 90 and 99 % of the
    mass. Densities of (position, state) are also drawn as maps of at most six frames.
    The colour scale is logarithmic if the peaks span decades. Tokens in the dataset are
    drawn on top. Of an ensemble, the first run is drawn.

    On a circle or sphere the density is drawn over time and angle, above its order
    parameters.

    Raises:
        InvalidInputError: if the dataset contains no density.
    """
    if is_on_sphere(dataset):
        figure = titled_figure(dataset, (7.2, 5.6))
        annotate(figure, ending_note(draw_angles(figure, next(runs(dataset)))))
        return figure
    run = density_run(next(runs(dataset)))
    several = dataset.sizes.get("run", 1)
    first = f"the first of {several} runs" if several > 1 else ""
    if run.dimension == 1 and run.position is None:
        figure = titled_figure(dataset, (7.2, 4.9))
        notes = draw_line(figure, run)
    else:
        look = look_of(dataset)
        figure = titled_figure(dataset, frames_size(len(run.times), look))
        notes = draw_frames(figure, run, look)
    annotate(figure, first, *notes, mass_note(run), ending_note(run.ending))
    return figure
