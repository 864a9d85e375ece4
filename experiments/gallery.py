"""Writes `figures/README.md` from the JSON files of the figures.

Usage: `python -m experiments.gallery`. The command first regenerates the captions,
claims and tables in the JSON files from the numbers in these files, so that a change of
wording needs no new computation.
"""

import json
from pathlib import Path
from typing import Any

from meanfield.reproduce import load, names
from meanfield.storage import replace_file

FOLDER = Path(__file__).resolve().parent.parent / "figures"
MISSING = Path(__file__).resolve().parent / "trained" / "not_reproduced.md"
HEAD = """\
# Figures of the literature, rebuilt

Made by `make figures`. Below each picture are its description and its caption, whose
numbers come from the JSON file of the figure. Each picture follows the text of the
paper, solved to tolerance; if scripts were published, the picture of their procedure
is linked as *published steps*. If the claim of the text is false, or the text can be
read in another way, a second picture follows: `--as corrected` has a hypothesis that
makes the claim true, and `--as iid` has independent entries of V.

In a cone each line is the path of one covariance from a grey dot: the height is the
trace, the axis is isotropic, the surface has rank one, and an arrow points to the rest
of a path that leaves the picture. In a disc each line is the path of a covariance
divided by its trace: the centre is isotropic, the rim has rank one, and a ring marks
escapes in the same direction, with their number. Colours and end marks show how the
flows ended.

Claims about trained networks are *reproduced*, *contradicted* or *undecided*. They are
*not trained* if an attention cannot fit 40 samples, *not fully tuned* if a better
setting of the attention that loses may have been missed, and *withdrawn: attention not
tuned* if its options were never tuned, so that the numbers do not test the claim.
`sander2022-fig6` follows the protocol in `experiments/trained/protocol.py`; the other
comparisons of attentions are withdrawn, while their networks are trained again.
"""


def refresh(folder: Path) -> None:
    """Regenerates the texts of all records in a folder from their numbers."""
    known = names()
    for path in sorted(folder.glob("*.json")):
        record = _read(path)
        if record["name"] in known:
            text = json.dumps(refreshed(record), indent=1, ensure_ascii=False) + "\n"
            replace_file(path, lambda stream, text=text: stream.write(text.encode()))


def refreshed(record: dict[str, Any]) -> dict[str, Any]:
    """The record of a figure with the current texts of its experiment."""
    experiment = load(record["name"]).read_as(record["reading"])
    texts = experiment.texts(record["numbers"])
    heads = {key: record[key] for key in ("name", "size", "reading")}
    rest = {key: value for key, value in record.items() if key not in texts | heads}
    return {**heads, **texts, **rest}


def page(folder: Path) -> str:
    """The Markdown page that shows all figures of a folder."""
    records = [_read(path) for path in sorted(folder.glob("*.json"))]
    texts = [record for record in records if record["reading"] == "text"]
    variants = [r for r in records if r["reading"] not in ("text", "code")]
    sections = [HEAD]
    for record in texts:
        sections.append(_section(folder, record))
        sections += [_variant(r) for r in variants if r["name"] == record["name"]]
    return "\n".join([*sections, MISSING.read_text(encoding="utf-8")])


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _section(folder: Path, record: dict[str, Any]) -> str:
    name = record["name"]
    links = _links(name)
    if (folder / f"{name}-code.json").exists():
        code = f"{name}-code"
        links += f" · published steps: [PNG]({code}.png), [PDF]({code}.pdf)"
    return f"## {name}\n\n{_figure(name, record)}\n\n{links}\n"


def _variant(record: dict[str, Any]) -> str:
    """Section for another reading of the paper, below the first picture."""
    stem = f"{record['name']}-{record['reading']}"
    return f"### {stem}\n\n{_figure(stem, record)}\n\n{_links(stem)}\n"


def _figure(stem: str, record: dict[str, Any]) -> str:
    """Claim, picture, description, caption and table of a figure."""
    name = record["name"]
    is_known = name in names()
    parts = (
        f"*{record['source']}.* {record['claim']}",
        f"![{stem}]({stem}.png)",
        load(name).read_as(record["reading"]).description if is_known else "",
        record["caption"],
        _table(record.get("table", [])),
    )
    return "\n\n".join(part for part in parts if part)


def _table(rows: list[list[str]]) -> str:
    """A Markdown table; empty if there are no rows."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in escaped]
    if lines:
        lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines)


def _links(stem: str) -> str:
    return f"[PDF]({stem}.pdf) · [numbers]({stem}.json)"


if __name__ == "__main__":
    refresh(FOLDER)
    text = page(FOLDER)
    replace_file(FOLDER / "README.md", lambda stream: stream.write(text.encode()))
