"""`figures/README.md` from the JSONs beside it: `python -m experiments.gallery`."""

import json
from pathlib import Path
from typing import Any

from meanfield.reproduce import load, names
from meanfield.storage import replace_file

FOLDER = Path(__file__).resolve().parent.parent / "figures"
MISSING = Path(__file__).resolve().parent / "trained" / "not_reproduced.md"
HEAD = """\
# Figures of the literature, rebuilt

Made by `make figures`. Below each picture stands what one sees in it, then its numbers,
which come from the JSON of the same figure. Each picture is what the paper's text says,
solved to tolerance; where scripts were published, the picture of their procedure is
linked as *published steps*. Where the text's claim is false, or the text can be read in
another way, a second picture stands below the first: `--as corrected` is drawn under a
hypothesis that makes the claim true, `--as iid` with all entries of V independent.

In a cone each line is the covariance of one start on its way, from a grey dot: its
height is the trace, the axis is isotropic, the surface has rank one, and an arrow goes
on beyond the picture. In a disc it is the shape alone, whatever the size: the centre is
isotropic, the rim has rank one, and a ring holds the escapes that share a direction,
with their number. Colours, and the marks at the ends, say how the flows ended.

Claims about trained networks are *reproduced*, *contradicted* or *undecided*, or the
verdict is *withdrawn: attention not tuned*. Then the numbers are those that were
measured, but options of the attention were never tuned, so that they say nothing of the
claim: the temperature of sliced attention was 1e-3, and with 0.1 in its place the same
layer reached 73.9 % where 28.2 % had been recorded, and softmax 71.9 %.
"""


def page(folder: Path) -> str:
    """The gallery of a folder of figures."""
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
    return f"## {name}\n\n{_shown(name, record)}\n\n{links}\n"


def _variant(record: dict[str, Any]) -> str:
    """A reading that claims something else, below the figure as printed."""
    stem = f"{record['name']}-{record['reading']}"
    return f"### {stem}\n\n{_shown(stem, record)}\n\n{_links(stem)}\n"


def _shown(stem: str, record: dict[str, Any]) -> str:
    """The claim, the picture, what one sees in it, and its numbers."""
    name = record["name"]
    seen = load(name).read_as(record["reading"]).seen if name in names() else ""
    parts = (
        f"*{record['source']}.* {record['claim']}",
        f"![{stem}]({stem}.png)",
        seen,
        record["caption"],
    )
    return "\n\n".join(part for part in parts if part)


def _links(stem: str) -> str:
    return f"[PDF]({stem}.pdf) · [numbers]({stem}.json)"


if __name__ == "__main__":
    text = page(FOLDER)
    replace_file(FOLDER / "README.md", lambda stream: stream.write(text.encode()))
