"""The picture of `models inspect`."""

from pathlib import Path

from meanfield import models
from meanfield._writing import check_writable
from meanfield.cli.terminal._console import RunProgress
from meanfield.cli.terminal._output import note
from meanfield.plotting import draw_head_eigenvalues, figure_files, save


def draw(model: str, out: Path) -> None:
    """Draws the eigenvalues of the heads of a model to a file.

    Raises:
        InputFileError: if the model cannot be read.
        ResourceError: if the file cannot be written.
    """
    for file in figure_files(out):
        check_writable(file)
    checkpoint = models.load(model)
    sizes = models.read(checkpoint).sizes
    with RunProgress(f"eigenvalues of {model}") as progress:
        show = lambda layer: progress.show(layer / sizes.n_layers, f"layer {layer}")
        data = models.head_eigenvalues(checkpoint, report=show)
    title = (
        f"{Path(model).name}: {sizes.n_layers} layers of {sizes.n_heads} heads, "
        f"d = {sizes.dimension}, rank {sizes.head_dimension}"
    )
    figure = draw_head_eigenvalues(data.assign_attrs(title=title))
    for file in save(figure, out):
        note(f"wrote {file}")
