"""`figures/README.md` from the JSONs beside it: `python -m experiments.gallery`."""

import json
from pathlib import Path
from typing import Any

from meanfield.storage import replace_file

FOLDER = Path(__file__).resolve().parent.parent / "figures"
HEAD = """\
# Figures of the literature, rebuilt

Made by `make figures`; every number below comes from the JSON of the same figure. Each
picture is what the paper's text says, solved to tolerance; where scripts were
published, the picture of their procedure is linked as *published steps*.
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
    return (
        f"## {name}\n\n*{record['source']}.* {record['claim']}\n\n"
        f"![{name}]({name}.png)\n\n{record['caption']}\n\n{links}\n"
    )


if __name__ == "__main__":
    text = page(FOLDER)
    replace_file(FOLDER / "README.md", lambda stream: stream.write(text.encode()))
