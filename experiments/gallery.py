"""`figures/README.md` from the JSONs beside it: `python -m experiments.gallery`."""

import json
from pathlib import Path
from typing import Any

from meanfield.reproduce import load, names
from meanfield.storage import replace_file

FOLDER = Path(__file__).resolve().parent.parent / "figures"
HEAD = """\
# Figures of the literature, rebuilt

Made by `make figures`. Below each picture stands what one sees in it, then its numbers,
which come from the JSON of the same figure. Each picture is what the paper's text says,
solved to tolerance; where scripts were published, the picture of their procedure is
linked as *published steps*.

In a cone each line is the covariance of one start on its way, from a grey dot: its
height is the trace, the axis is isotropic, the surface has rank one, and an arrow goes
on beyond the picture. In a disc it is the shape alone, whatever the size: the centre is
isotropic, the rim has rank one, and a ring holds the escapes that share a direction,
with their number. Colours, and the marks at the ends, say how the flows ended.
"""


def page(folder: Path) -> str:
    """The gallery of a folder of figures."""
    records = [_read(path) for path in sorted(folder.glob("*.json"))]
    texts = [record for record in records if record["reading"] == "text"]
    return "\n".join([HEAD, *(_section(folder, record) for record in texts)])


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _section(folder: Path, record: dict[str, Any]) -> str:
    name = record["name"]
    links = f"[PDF]({name}.pdf) · [numbers]({name}.json)"
    if (folder / f"{name}-code.json").exists():
        code = f"{name}-code"
        links += f" · published steps: [PNG]({code}.png), [PDF]({code}.pdf)"
    seen = f"{load(name).seen}\n\n" if name in names() else ""
    return (
        f"## {name}\n\n*{record['source']}.* {record['claim']}\n\n"
        f"![{name}]({name}.png)\n\n{seen}{record['caption']}\n\n{links}\n"
    )


if __name__ == "__main__":
    text = page(FOLDER)
    replace_file(FOLDER / "README.md", lambda stream: stream.write(text.encode()))
