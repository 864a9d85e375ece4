"""Writes training times to `README.md`: `python -m experiments.trained.costs`."""

from collections import defaultdict
from pathlib import Path
from typing import Any

from experiments.trained.records import RECORDS, Line, read_lines
from meanfield.training import TrainSpec

PAGE = Path(__file__).resolve().parent / "README.md"
TITLE = """\
# Training times

`python -m experiments.trained.costs` writes this page from the lines in `records/`. The
seconds are those of one epoch of one network. Networks were trained in batches, on two
cores that often ran other programs or were paused, or on an accelerator shared by nine
programs.

The comparison of `patches` follows the protocol (`protocol.py`). The others are
withdrawn until their attentions have been tuned by it, which is under way. The records
still contain earlier measurements; [figures](../../figures/README.md) explains why they
give no verdict.

"""
HEAD = """\
| task | attention | device | networks | s per epoch | min in total |
|---|---|---|---|---|---|
"""


def table(folder: Path) -> str:
    """A Markdown table of training times by task, attention and device.

    `s per epoch` is the time of a batch of networks, divided by their number.
    """
    kinds: dict[tuple[str, ...], list[Line]] = defaultdict(list)
    for file in sorted(folder.glob("*.jsonl")):
        for line in read_lines(file):
            kinds[_kind(line)].append(line)
    return HEAD + "".join(_row(kind, lines) for kind, lines in sorted(kinds.items()))


def _kind(line: Line) -> tuple[str, ...]:
    spec = TrainSpec.from_json({**line["spec"], "seeds": [line["seed"]]})
    options = ", ".join(f"{name} {value}" for name, value in spec.options.items())
    return f"{spec.task}: {options}", spec.variant.label, line["device"]


def _row(kind: tuple[str, ...], lines: list[Line]) -> str:
    seconds = [line["seconds"] for line in lines]
    epochs = sum(line["spec"]["epochs"] for line in lines)
    cells: list[Any] = [*kind, len(lines)]
    cells += [f"{sum(seconds) / epochs:.2g}", f"{sum(seconds) / 60:.0f}"]
    return "| " + " | ".join(map(str, cells)) + " |\n"


if __name__ == "__main__":
    PAGE.write_text(TITLE + table(RECORDS), encoding="utf-8")
