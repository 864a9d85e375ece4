"""Damage to files: flipped bits, truncation, links, forged records."""

import json
import math
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from meanfield.storage.disk._files import json_digest

Damage = Callable[[random.Random, Path, Path], None]

# Values that no valid record contains, at least not there.
ABSURD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2,
    10**6,
    10**30,
    1.5,
    math.nan,
    math.inf,
    "",
    "x",
    "../../../../etc",
    "/etc",
    "x" * 10_000,
    "\ud800",
    "\0",
    [],
    [[]],
    {},
    {"x": 1},
    [None],
)


def files(folder: Path) -> list[Path]:
    """The files of a folder with their contents, in order, without links."""
    actual = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return sorted(path for path in actual if path.stat().st_size)


def folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_dir())


def tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder, with their bytes."""
    return {
        str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def flip(draw: random.Random, folder: Path, outside: Path) -> None:
    """Flips one bit of one file; small files are as likely as large ones."""
    path = draw.choice(files(folder))
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def flip_record(draw: random.Random, folder: Path, outside: Path) -> None:
    """Flips one bit of the record, or of a result of a sweep."""
    paths = [folder / "commit.json", folder / "sweep.json", *folder.glob("done/*.json")]
    path = draw.choice([path for path in paths if path.exists()])
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def truncate(draw: random.Random, folder: Path, outside: Path) -> None:
    path = draw.choice(files(folder))
    os.truncate(path, draw.randrange(path.stat().st_size))


def remove(draw: random.Random, folder: Path, outside: Path) -> None:
    draw.choice(files(folder)).unlink()


def remove_folder(draw: random.Random, folder: Path, outside: Path) -> None:
    shutil.rmtree(draw.choice(folders(folder)))


def swap(draw: random.Random, folder: Path, outside: Path) -> None:
    """Swaps two files."""
    first, second = draw.sample(files(folder), 2)
    one_bytes, other_bytes = first.read_bytes(), second.read_bytes()
    first.write_bytes(other_bytes)
    second.write_bytes(one_bytes)


def link(draw: random.Random, folder: Path, outside: Path) -> None:
    """Replaces a part by a link to a folder that belongs to somebody else."""
    part = draw.choice([*files(folder), *folders(folder)])
    part.rename(outside / part.name)
    part.symlink_to(outside / part.name)
    for name in ("00010", "00011", "12345"):
        place = outside / part.name / name if (part.is_dir()) else outside / name
        place.mkdir(exist_ok=True)
        (place / "precious").write_text("not ours")


def intruder(draw: random.Random, folder: Path, outside: Path) -> None:
    """Puts a foreign folder where the next segment is to be written."""
    place = draw.choice(folders(folder)) / draw.choice(["00010", "00011", "notes"])
    place.mkdir(exist_ok=True)
    (place / "precious").write_text("not ours")


def pipe(draw: random.Random, folder: Path, outside: Path) -> None:
    """Puts a pipe without a writer in the place of a file."""
    path = draw.choice(files(folder))
    path.unlink()
    os.mkfifo(path)


DAMAGES: dict[str, Damage] = {
    "flip": flip,
    "flip of a record": flip_record,
    "truncation": truncate,
    "removal": remove,
    "removal of a folder": remove_folder,
    "swap": swap,
    "link": link,
    "intruder": intruder,
    "pipe": pipe,
}


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The paths of keys to all parts of a JSON value."""
    keys = range(len(value)) if isinstance(value, list) else value
    for key in keys if isinstance(value, list | dict) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


def absurd_record(draw: random.Random, run: Path) -> str:
    """Writes one absurd value into the record of a run, with a valid checksum."""
    file = run / "commit.json"
    body = json.loads(file.read_bytes())
    body.pop("checksum")
    where = _corrupt_value(draw, body)
    file.write_text(json.dumps({**body, "checksum": json_digest(body)}, indent=1))
    return where


def absurd_sweep(draw: random.Random, sweep: Path) -> str:
    """Writes one absurd value into a file of a sweep, with valid digests."""
    record = json.loads((sweep / "sweep.json").read_bytes())
    record.pop("checksum")
    paths = sorted(sweep.glob("done/*.json"))
    results = {path: json.loads(path.read_bytes()) for path in paths}
    for result in results.values():
        result.pop("checksum")
    target = draw.choice([record, record, draw.choice(list(results.values()))])
    where = _corrupt_value(draw, target)
    seal = json_digest(record)
    (sweep / "sweep.json").write_text(json.dumps({**record, "checksum": seal}))
    for path, result in results.items():
        about = {"seal": seal, "task": int(path.stem), "result": result}
        path.write_text(json.dumps({**result, "checksum": json_digest(about)}))
    return where if target is record else f"result {where}"


def _corrupt_value(draw: random.Random, body: dict[str, Any]) -> str:
    """Changes one part of a JSON value, shallow ones as likely as deep ones."""
    actual = list(places(body))
    depth = draw.randint(1, max(map(len, actual)))
    path = draw.choice([p for p in actual if len(p) == depth])
    inner, last = body, path[-1]
    for key in path[:-1]:
        inner = inner[key]
    value, how = draw.choice(ABSURD), draw.random()
    if how < 0.15:
        del inner[last]
        return f"{path} removed"
    if how < 0.3 and isinstance(inner, dict):
        name = draw.choice(["../../../../etc", "x", "time", "", "new", "\ud800"])
        inner[name] = inner.pop(last)
        return f"{'.'.join(map(str, path))} as {name!r}"
    inner[last] = value
    return f"{'.'.join(map(str, path))} = {str(value)[:20]!r}"
