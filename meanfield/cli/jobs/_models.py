"""Pictures of `models`, and the part of `models compare` that needs JAX."""

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meanfield import models, plotting
from meanfield._writing import check_output
from meanfield.cli.terminal._console import RunProgress
from meanfield.cli.terminal._output import note, number, print_json, print_rows
from meanfield.errors import SimulationError

from ._texts import note_unknown, text_label

FINISHED = "finished"
_TABLES = ("depths", "shares")
LEGEND = """\
distance: |flow − network| / |network|; initial distance: that of the embedding.
cosine: of the displacements of flow and network since the embedding.
rank: effective rank of the covariance. similarity: mean cosine of two tokens."""
PARTS = """\
shares of the network's displacement in a layer, along it; they add up to 100 %, and
one below zero works against it. cosine: of what attention adds and the displacement."""
SUMMARY = """\
flow: how it ended. rank: effective rank of the covariance. similarity: mean cosine of
two tokens. distance: |flow − network| / |network|; initial distance: that of the
embedding. nearer: number of leading layers with distance < initial distance."""
REMARK = "the flow has the network's attention, without its layer norms and MLPs"


@contextmanager
def open_model(
    model: str, title: str
) -> Iterator[tuple[models.Checkpoint, Callable[[int], None]]]:
    """A model, and a function that shows the progress through its layers.

    Raises:
        InputFileError: if the model cannot be read.
    """
    checkpoint = models.load(model)
    depth = models.read(checkpoint).sizes.n_layers
    with RunProgress(title) as progress:

        def show(layer: int) -> None:
            progress.show(layer / depth, f"layer {layer} of {depth}")

        yield checkpoint, show


def check_picture(out: Path | None, *, force: bool) -> None:
    """Raises unless a picture can be written and, without `force`, is absent."""
    if out is not None:
        check_output(*plotting.figure_files(out), force=force)


def compare(
    model: str, text: str, rtol: float | None, out: Path | None, *, json: bool
) -> None:
    """Prints a comparison of flow and network for one text, and draws it to `out`.

    Raises:
        SimulationError: if the flow failed, after printing the results.
    """
    comparison = _compare(model, text, rtol, f"flow of {model}")
    depth = len(comparison.shares)
    title = f"{Path(model).name}: {len(comparison.words)} tokens, {depth} layers"
    if json:
        print_json({"model": model, **_as_json(comparison)})
    else:
        _print(title, comparison)
    if out is not None:
        attrs = {"title": title, "remark": REMARK}
        figure = plotting.draw_layers(comparison.dataset().assign_attrs(attrs))
        for file in plotting.save(figure, out):
            note(f"wrote {file}")
    _check_endings([comparison])


def compare_all(
    model: str, texts: Sequence[str], rtol: float | None, *, json: bool
) -> None:
    """Compares flow and network for several texts, and prints a row for each.

    Raises:
        SimulationError: if a flow failed, after printing the results.
    """
    for text in texts:
        models.resolve_text(
            text
        )  # an unreadable text raises here, before the first flow starts
    count = len(texts)
    rows = []
    for place, text in enumerate(texts, start=1):
        title = f"flow of {model}, text {place} of {count}"
        rows.append(_compare(model, text, rtol, title))
    if json:
        pairs = zip(texts, rows, strict=True)
        values = [{"text": text, **_as_json(comparison)} for text, comparison in pairs]
        print_json({"model": model, "texts": values})
    else:
        depth = len(rows[0].shares)
        name = Path(model).name
        sys.stdout.write(
            f"{name}: {count} texts, after {depth} layers. {REMARK[0].upper()}"
            f"{REMARK[1:]}.\n\n"
        )
        print_rows(list(map(_summary, texts, rows)))
        sys.stdout.write(f"{SUMMARY}\n")
    _check_endings(rows)


def _compare(
    model: str, text: str, rtol: float | None, title: str
) -> models.Comparison:
    """Compares flow and network for one text, with a progress bar."""
    note_unknown(model, text)
    with open_model(model, title) as (checkpoint, show):
        content = models.resolve_text(text)
        return models.compare(checkpoint, content, rtol=rtol, report=show)


def _check_endings(rows: Sequence[models.Comparison]) -> None:
    """Raises if a flow failed.

    Raises:
        SimulationError: with the first ending other than `finished`.
    """
    for comparison in rows:
        if comparison.endings[-1] != FINISHED:
            raise SimulationError(
                f"The flow ended with status `{comparison.endings[-1]}` in layer "
                f"{len(comparison.endings) - 1}; later layers have no values."
            )


def _summary(text: str, comparison: models.Comparison) -> dict[str, object]:
    """Table row for one text."""
    start, last = comparison.depths[0], comparison.depths[-1]
    ranks = (start.network_rank, last.network_rank, last.flow_rank)
    similarities = (last.network_similarity, last.flow_similarity)
    return {
        "text": text_label(text),
        "tokens": len(comparison.words),
        "flow": comparison.endings[-1],
        "rank: embedding | network | flow": _join_values(*ranks),
        "similarity: network | flow": _join_values(*similarities),
        "distance": number(last.distance, 3),
        "initial distance": number(last.initial_distance, 3),
        "nearer": f"{_n_nearer_layers(comparison)} of {len(comparison.shares)}",
    }


def _as_json(comparison: models.Comparison) -> dict[str, Any]:
    values = dataclasses.asdict(comparison)
    rows = {name: [row._asdict() for row in values[name]] for name in _TABLES}
    return {**values, **rows}


def _print(title: str, comparison: models.Comparison) -> None:
    sys.stdout.write(f"{title}. {REMARK[0].upper()}{REMARK[1:]}.\n\n")
    print_rows([_depth_row(row) for row in comparison.depths])
    sys.stdout.write(f"{LEGEND}\n\n")
    print_rows([_share_row(row) for row in comparison.shares])
    sys.stdout.write(f"{PARTS}\n\n{_verdict(comparison)}\n")


def _depth_row(row: models.Depth) -> dict[str, object]:
    similarities = (row.network_similarity, row.flow_similarity)
    return {
        "delay in layers": row.layers,
        "distance": number(row.distance, 3),
        "initial distance": number(row.initial_distance, 3),
        "cosine": number(row.cosine, 2),
        "rank: network | flow": _join_values(row.network_rank, row.flow_rank),
        "similarity: network | flow": _join_values(*similarities),
    }


def _join_values(*values: float) -> str:
    return " | ".join(number(value, 3) for value in values)


def _share_row(row: models.Shares) -> dict[str, object]:
    parts = {"attention": row.attention, "MLP": row.mlp, "layer norms": row.norm}
    return {
        "layer": row.layer,
        "displacement / states": number(row.displacement, 3),
        **{name: f"{100 * value:.0f} %" for name, value in parts.items()},
        "cosine": number(row.attention_cosine, 2),
    }


def _n_nearer_layers(comparison: models.Comparison) -> int:
    """Number of leading layers with states nearer to the flow than to its start."""
    # The count ends at the first layer whose states are nearer to the start. If later
    # states are nearer to the flow again, that is a coincidence.
    nearer = [row.distance < row.initial_distance for row in comparison.depths[1:]]
    return nearer.index(False) if False in nearer else len(nearer)


def _verdict(comparison: models.Comparison) -> str:
    """Sentence that says for how many layers the flow stays near the network."""
    count, depth = _n_nearer_layers(comparison), len(comparison.shares)
    phrases = {depth: "every layer", 1: "the first layer"}
    reach = phrases.get(count, f"the first {count} layers")
    last = comparison.depths[-1]
    first = f"Through {reach} the flow is nearer to the network than the embedding is"
    if count == 0:
        first = "The flow is never nearer to the network than the embedding is"
    if math.isnan(last.distance):
        return f"{first}."
    times = number(last.distance / last.initial_distance, 2)
    return f"{first}; after the last it is {times} times as far as the embedding."


def draw_heads(model: str, out: Path) -> None:
    """Draws the eigenvalues of the heads of a model to a file.

    Raises:
        InputFileError: if the model cannot be read.
        ResourceError: if the file cannot be written.
    """
    with open_model(model, f"eigenvalues of {model}") as (checkpoint, show):
        sizes = models.read(checkpoint).sizes
        data = models.head_eigenvalues(checkpoint, report=show)
    title = (
        f"{Path(model).name}: {sizes.n_layers} layers of {sizes.n_heads} heads, "
        f"d = {sizes.dimension}, rank {sizes.head_dimension}"
    )
    figure = plotting.draw_head_eigenvalues(data.assign_attrs(title=title))
    for file in plotting.save(figure, out):
        note(f"wrote {file}")
