"""The pictures of `models`, and the part of `models compare` that needs JAX."""

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meanfield import models, plotting
from meanfield._writing import check_writable
from meanfield.cli.terminal._console import RunProgress
from meanfield.cli.terminal._output import note, number, print_json, print_rows
from meanfield.errors import SimulationFailed

from ._words import named, note_unknown

FINISHED = "finished"
_TABLES = ("depths", "shares")
LEGEND = """\
distance: |flow − network| / |network|; if tokens stay: of the embedding in its place.
cosine: of the displacements of flow and network since the embedding.
rank: effective rank of the covariance. similarity: mean cosine of two tokens."""
PARTS = """\
shares of the network's displacement in a layer, along it; they add up to 100 %, and
one below zero works against it. cosine: of what attention adds and the displacement."""
SUMMARY = """\
flow: how it ended. rank: effective rank of the covariance. similarity: mean cosine of
two tokens. distance: |flow − network| / |network|; if tokens stay: of the embedding in
its place. nearer: through how many layers the flow is nearer than the embedding."""
REMARK = "the flow has the network's attention, without its layer norms and MLPs"


@contextmanager
def reading(
    model: str, title: str
) -> Iterator[tuple[models.Checkpoint, Callable[[int], None]]]:
    """A model, and what shows on the way which of its layers are done.

    Raises:
        InputFileError: if the model cannot be read.
    """
    checkpoint = models.load(model)
    depth = models.read(checkpoint).sizes.n_layers
    with RunProgress(title) as progress:

        def show(layer: int) -> None:
            progress.show(layer / depth, f"layer {layer} of {depth}")

        yield checkpoint, show


def compare(
    model: str, text: str, rtol: float | None, out: Path | None, *, in_json: bool
) -> None:
    """Compares, prints, and draws if there is a file to draw to.

    Raises:
        SimulationFailed: if the flow failed on its way, once all is told.
    """
    for file in () if out is None else plotting.figure_files(out):
        check_writable(file)
    both = _compare(model, text, rtol, f"flow of {model}")
    depth = len(both.shares)
    title = f"{Path(model).name}: {len(both.words)} tokens, {depth} layers"
    if in_json:
        print_json({"model": model, **_as_json(both)})
    else:
        _print(title, both)
    if out is not None:
        attrs = {"title": title, "remark": REMARK}
        figure = plotting.draw_layers(both.dataset().assign_attrs(attrs))
        for file in plotting.save(figure, out):
            note(f"wrote {file}")
    _fail_with([both])


def compare_all(
    model: str, texts: Sequence[str], rtol: float | None, *, in_json: bool
) -> None:
    """Compares of each of several texts, and prints a row for each.

    Raises:
        SimulationFailed: if a flow failed on its way, once all is told.
    """
    for text in texts:
        models.text_in(text)  # what cannot be read is refused before the first flow
    count = len(texts)
    rows = []
    for place, text in enumerate(texts, start=1):
        title = f"flow of {model}, text {place} of {count}"
        rows.append(_compare(model, text, rtol, title))
    if in_json:
        pairs = zip(texts, rows, strict=True)
        values = [{"text": text, **_as_json(both)} for text, both in pairs]
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
    _fail_with(rows)


def _compare(
    model: str, text: str, rtol: float | None, title: str
) -> models.Comparison:
    """The comparison of a text, with progress."""
    note_unknown(model, text)
    with reading(model, title) as (checkpoint, show):
        words = models.text_in(text)
        return models.compare(checkpoint, words, rtol=rtol, report=show)


def _fail_with(rows: Sequence[models.Comparison]) -> None:
    """Fails if a flow did, once all is told.

    Raises:
        SimulationFailed: naming the first ending that is none of the last layer.
    """
    for both in rows:
        if both.endings[-1] != FINISHED:
            raise SimulationFailed(
                f"The flow ended as `{both.endings[-1]}` in layer "
                f"{len(both.endings) - 1}; what follows it is left empty."
            )


def _summary(text: str, both: models.Comparison) -> dict[str, object]:
    """The row of one text among others."""
    start, last = both.depths[0], both.depths[-1]
    ranks = (start.network_rank, last.network_rank, last.flow_rank)
    similarities = (last.network_similarity, last.flow_similarity)
    return {
        "text": named(text),
        "tokens": len(both.words),
        "flow": both.endings[-1],
        "rank: embedding | network | flow": _side_by_side(*ranks),
        "similarity: network | flow": _side_by_side(*similarities),
        "distance": number(last.distance, 3),
        "if tokens stay": number(last.unmoved, 3),
        "nearer": f"{_reach(both)} of {len(both.shares)}",
    }


def _as_json(both: models.Comparison) -> dict[str, Any]:
    values = dataclasses.asdict(both)
    rows = {name: [row._asdict() for row in values[name]] for name in _TABLES}
    return {**values, **rows}


def _print(title: str, both: models.Comparison) -> None:
    sys.stdout.write(f"{title}. {REMARK[0].upper()}{REMARK[1:]}.\n\n")
    print_rows([_depth(row) for row in both.depths])
    sys.stdout.write(f"{LEGEND}\n\n")
    print_rows([_shares(row) for row in both.shares])
    sys.stdout.write(f"{PARTS}\n\n{_verdict(both)}\n")


def _depth(row: models.Depth) -> dict[str, object]:
    similarities = (row.network_similarity, row.flow_similarity)
    return {
        "layers behind": row.layers,
        "distance": number(row.distance, 3),
        "if tokens stay": number(row.unmoved, 3),
        "cosine": number(row.cosine, 2),
        "rank: network | flow": _side_by_side(row.network_rank, row.flow_rank),
        "similarity: network | flow": _side_by_side(*similarities),
    }


def _side_by_side(*values: float) -> str:
    return " | ".join(number(value, 3) for value in values)


def _shares(row: models.Shares) -> dict[str, object]:
    parts = {"attention": row.attention, "MLP": row.mlp, "layer norms": row.norm}
    return {
        "layer": row.layer,
        "displacement / states": number(row.displacement, 3),
        **{name: f"{100 * value:.0f} %" for name, value in parts.items()},
        "cosine": number(row.attention_cosine, 2),
    }


def _reach(both: models.Comparison) -> int:
    """Through how many layers the flow is nearer to the network than the embedding."""
    # Where it is nearer again after it was further off, that is by accident.
    nearer = [row.distance < row.unmoved for row in both.depths[1:]]
    return nearer.index(False) if False in nearer else len(nearer)


def _verdict(both: models.Comparison) -> str:
    """Up to which layer the flow is nearer to the network than the embedding is."""
    count, depth = _reach(both), len(both.shares)
    through = {depth: "every layer", 0: "no layer", 1: "the first layer"}
    reach = through.get(count, f"the first {count} layers")
    last = both.depths[-1]
    first = f"The flow is nearer to the network than the embedding is through {reach}"
    if math.isnan(last.distance):
        return f"{first}."
    times = number(last.distance / last.unmoved, 2)
    return f"{first}; after the last it is {times} times as far as the embedding."


def draw_heads(model: str, out: Path) -> None:
    """Draws the eigenvalues of the heads of a model to a file.

    Raises:
        InputFileError: if the model cannot be read.
        ResourceError: if the file cannot be written.
    """
    for file in plotting.figure_files(out):
        check_writable(file)
    with reading(model, f"eigenvalues of {model}") as (checkpoint, show):
        sizes = models.read(checkpoint).sizes
        data = models.head_eigenvalues(checkpoint, report=show)
    title = (
        f"{Path(model).name}: {sizes.n_layers} layers of {sizes.n_heads} heads, "
        f"d = {sizes.dimension}, rank {sizes.head_dimension}"
    )
    figure = plotting.draw_head_eigenvalues(data.assign_attrs(title=title))
    for file in plotting.save(figure, out):
        note(f"wrote {file}")
