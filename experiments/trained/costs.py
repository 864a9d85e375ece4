"""What trainings took: `python -m experiments.trained.costs` writes `README.md`."""

from collections import defaultdict
from pathlib import Path
from typing import Any

from experiments.trained.records import RECORDS, Line, lines_in
from meanfield.training import TrainSpec

PAGE = Path(__file__).resolve().parent / "README.md"
TITLE = """\
# What trainings took

Written by `python -m experiments.trained.costs` from the lines in `records/`. Seconds
are those of an epoch of one network, among those that were trained beside it, on two
cores that were often busy, or on an accelerator that nine programs shared.

What these networks say of sliced attention (`esp-soft`), in sander2022-fig6,
sander2022-table1, shahbazi2025-table1 and shahbazi2025-table1-sorts, and all that
tay2020-table1 says, is withdrawn: attention not tuned. Each line is still what was
measured; [figures](../../figures/README.md) says why it is no verdict.

"""
HEAD = """\
| task | attention | device | networks | s per epoch | min in all |
|---|---|---|---|---|---|
"""


def table(folder: Path) -> str:
    """A row for each task with options, attention and device, in Markdown.

    `s per epoch` is that of one network among those that were trained beside it.
    """
    kinds: dict[tuple[str, ...], list[Line]] = defaultdict(list)
    for file in sorted(folder.glob("*.jsonl")):
        for line in lines_in(file):
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
