"""Malformed checkpoints and tokenizers: one line each, no hang, no traceback.

`python tests/fuzzing_models.py COUNT SEED FOLDER` changes a small BERT or the heads of
a trained network in one place of its header, its config or its tokenizer, runs the
commands that read models, and prints a summary as JSON; after a violation it exits with
1. Rust prints a panic past Python, so the file descriptor is read, too.
"""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bert_reference
import numpy as np
from faults_damage import ABSURD, places
from fuzzing import LARGEST, raise_hung, run_command, violation
from fuzzing_cases import Case

WHOLE = 2**63 - 1, 2**64, -1, 10**30, 2**31, 2**53 + 1
VALUES = (*ABSURD, *WHOLE, -0.5, 1e308, "9" * 5000, [[[[]]]], [0] * 100_000)
DTYPES = "F8_E4M3", "BF16", "F16", "F64", "I8", "BOOL", "U64", "F4", "", "f32", "F128"
SIZES = 0, 1, 7, 2**20, 2**31, 2**40, 2**63, 2**64 - 1
NO_OBJECTS = "[" * 10_000, '{"a":' * 10_000, "", "\ufeff{}", "nul", "[1]", "9" * 9999
TEXT = ["--text", "the cat sat", "--dry-run"]


def header_of(file: Path) -> tuple[dict[str, Any], bytes]:
    """The header of a safetensors file, and the bytes after it."""
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def write_header(file: Path, header: Any, body: bytes, size: int | None = None) -> None:
    """Writes a header with a size that may be wrong."""
    text = json.dumps(header).encode(errors="replace")
    length = struct.pack("<Q", len(text) if size is None else size)
    file.write_bytes(length + text + body)


def harm_header(draw: random.Random, folder: Path) -> str:
    """Corrupts a size, an offset, a shape, a dtype or a name."""
    file = folder / "model.safetensors"
    header, body = header_of(file)
    name = draw.choice(sorted(header))
    entry, kind = header[name], draw.choice(["size", "offset", "shape", "dtype", "any"])
    size = draw.choice(SIZES) if kind == "size" else None
    if kind == "offset":
        entry["data_offsets"][draw.randrange(2)] = draw.choice([*WHOLE, *SIZES])
    elif kind == "shape":
        shape = entry["shape"]
        shape[draw.randrange(len(shape))] = draw.choice([*WHOLE, *SIZES])
        if draw.random() < 0.3:
            entry["shape"] = shape[::-1] + [1] * draw.choice([1, 40, 5000])
    elif kind == "dtype":
        entry["dtype"] = draw.choice(DTYPES)
    elif kind == "any":
        kind = absurd(draw, header)
    write_header(file, header, body, size)
    return f"header {kind}"


def harm_bytes(draw: random.Random, folder: Path) -> str:
    """Writes NaN, truncates the file or flips a bit."""
    file = folder / "model.safetensors"
    header, body = header_of(file)
    kind = draw.choice(["nan", "inf", "huge", "cut", "more", "empty"])
    numbers = {"nan": np.nan, "inf": -np.inf, "huge": 3e38}
    if kind in numbers:
        body = np.full(len(body) // 4, numbers[kind], np.float32).tobytes()
        write_header(file, header, body)
    elif kind == "more":
        write_header(file, header, body + b"x" * draw.randrange(1, 9))
    else:
        data = file.read_bytes()
        file.write_bytes(b"" if kind == "empty" else data[: draw.randrange(len(data))])
    return f"bytes {kind}"


def harm_json(name: str) -> Callable[[random.Random, Path], str]:
    """Replaces one value of a JSON file by an absurd one, or breaks the file."""

    def harm(draw: random.Random, folder: Path) -> str:
        file = folder / name
        if draw.random() < 0.1:
            deep = (
                "[" * 10_000,
                '{"a":' * 10_000,
                "",
                "\ufeff{}",
                "nul",
                "[1]",
                "9" * 9999,
            )
            file.write_text(draw.choice(deep))
            return f"{name} none"
        values = json.loads(file.read_text())
        where = absurd(draw, values)
        file.write_text(json.dumps(values), encoding="utf-8", errors="replace")
        return f"{name} {where}"

    return harm


def absurd(draw: random.Random, values: dict[str, Any]) -> str:
    """Changes or removes one value at any depth, and returns its path."""
    path = draw.choice(list(places(values)))
    inner: Any = values
    for key in path[:-1]:
        inner = inner[key]
    where = ".".join(map(str, path))
    if draw.random() < 0.2:
        del inner[path[-1]]
        return f"{where} removed"
    inner[path[-1]] = draw.choice(VALUES)
    return f"{where} = {str(inner[path[-1]])[:30]!r}"


HARMS = {
    "bert": [
        *[harm_header] * 4,
        harm_bytes,
        *[harm_json("config.json")] * 3,
        *[harm_json("tokenizer.json")] * 3,
    ],
    "heads": [*[harm_header] * 2, harm_bytes, *[harm_json("config.json")] * 2],
}
READERS = {
    "bert": [
        ["models", "inspect", "model", "--json"],
        ["simulate", "--model", "model", *TEXT],
        ["simulate", "--model", "model", "--n", "3", "--dry-run"],
    ],
    "heads": [
        ["models", "inspect", "model"],
        ["simulate", "--model", "model", "--n", "3", "--dry-run"],
    ],
}


@contextlib.contextmanager
def standard_error() -> Iterator[list[str]]:
    """Appends what is written to the file descriptor of stderr to a list at the end."""
    captured: list[str] = []
    saved_fd = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield captured
        finally:
            os.dup2(saved_fd, 2)
            os.close(saved_fd)
            file.seek(0)
            captured.append(file.read().decode(errors="replace"))


def run_cases(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Runs `count` cases, and counts their results."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    bert_reference.write(Path("bert"))
    bert_reference.write_heads(Path("heads"))
    codes, failures, longest = Counter[object](), [], 0.0
    for index in range(count):
        draw = random.Random(f"{seed} {index}")
        kind = draw.choice(["bert", "bert", "heads"])
        shutil.rmtree("model", ignore_errors=True)
        shutil.copytree(kind, "model")
        where = draw.choice(HARMS[kind])(draw, Path("model"))
        command = draw.choice(READERS[kind])
        with standard_error() as below:
            code, stderr, seconds = run_command(Case(tuple(command)))
        codes[code] += 1
        longest = max(longest, seconds)
        fault = violation(code, stderr + below[0], seconds) or (
            f"below Python: {below[0]}" if below[0] else ""
        )
        if fault:
            failures.append(f"{index} {kind} {where}: {' '.join(command)}\n  {fault}")
            sys.stderr.write(f"{failures[-1][:2000]}\n")
    return {
        "cases": count,
        "codes": {str(code): n for code, n in codes.items()},
        "longest": round(longest, 2),
        "broken": failures,
    }


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, raise_hung)
    resource.setrlimit(resource.RLIMIT_DATA, (LARGEST, LARGEST))
    report = run_cases(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    sys.exit(bool(report["broken"]))
