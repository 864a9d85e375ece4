"""Strategies for command lines of every command, and for the files they name."""

import io
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from meanfield.cli import COMMANDS
from meanfield.spec import MATRICES, RunSpec

LARGE_NUMBER = 10_000  # digits of a number, or brackets around one
HIDDEN_KEYS = ("source", "layers", "terms")
KEYS = [name for name in RunSpec.model_fields if name not in HIDDEN_KEYS]


@dataclass(frozen=True)
class Case:
    """A command line, and the files in its folder."""

    arguments: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)


NUMBERS = st.one_of(
    st.sampled_from(["0", "1", "2", "3", "-1", "0.5", "1e-3", "2.5", "7"]),
    st.sampled_from(
        ["1e307", "1e308", "-1e308", "1e-320", "1e-323", "nan", "inf", "-0.0", "1e400"]
    ),
    st.sampled_from(
        ["9" * 19, "9" * 400, "9" * LARGE_NUMBER, "1_000", "0x10", "٣", "1e9"]
    ),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(repr),
)
WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", " ", "\0", "a\0b", "\udcff", "\ud800", "é日🂡", "-", "--"]),
    st.sampled_from(["a" * 300, "a/" * 2000 + "b", "~nobody-here/x", "\n", "`", "@"]),
)
PLACES = st.one_of(
    st.sampled_from(["none", ".", "..", "/", "/dev/null", "/proc/nothing/x", "file"]),
    st.sampled_from(["spec.toml", "report.json", "x.npy", "x.csv", "model", "good"]),
    WORDS.filter(lambda word: not word.startswith("/")),
)
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**30), 10**30),
        st.floats(),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner)
    ),
    max_leaves=8,
)
DEEP = st.sampled_from(
    [
        "[" * LARGE_NUMBER + "1" + "]" * LARGE_NUMBER,
        "[" * 40 + "1" + "]" * 40,
        '{"a":' * LARGE_NUMBER + "1" + "}" * LARGE_NUMBER,
        "[" * LARGE_NUMBER,
        f"[[{'9' * LARGE_NUMBER}]]",
    ]
)
LISTS = st.lists(st.lists(NUMBERS, max_size=3), max_size=3).map(
    lambda rows: f"[{','.join(f'[{chr(44).join(row)}]' for row in rows)}]"
)
FILES = st.sampled_from(["@x.npy", "@x.csv", "@none.npy", "@model", "@a\0.npy", "@"])
LAWS = st.sampled_from(["normal", "normal:2", "normal:inf", "normal:a", "normall"])
ANYTHING = st.one_of(NUMBERS, WORDS, LISTS, DEEP, FILES, LAWS, JSON.map(json.dumps))
TELLING = {
    "attention": ["softmax", "l2", "sinkhorn", "relu", "exp", "linear", "softmx"],
    "measure": ["points", "gaussian", "grid", "gird", "circle", "zonal"],
    "init": ["gaussian", "ball", "ring", "moons", "mixture", "@x.npy", "@x.csv"],
    "solver": ["tsit5", "kvaerno5", "euler", "shark", "none"],
    "mask": ["causal", "window:0.5", "window:-1", "window:"],
    "starts": ["grid:3", "random:4", "grid:0", "random:2:3:4", f"grid:{'9' * 30}"],
    "reduction": ["auto", "dense", "blocked:2", "chebyshev:1e-3", "blocked:0", "x:"],
    "model": ["model", "minilmm", "none"],
    "text": ["the cat", "@none", "", "the " * 2000],
    "box": ["affine", "scaled", "fixed"],
    "observe": ["energy", "energy,energy", "nothing"],
    "precision": ["single", "double", "half"],
    "spacing": ["even", "log", "both"],
    "times": ["[0,1]", "[1,0]", "[0,0.5,1]", "[]", "[-1e308,1e308]"],
    "t": ["0.1", "1", "1e307", "1e308"],
    "dt": ["0.1", "1e-9", "1e-320", "1e300"],
    "rtol": ["1e-3", "1e-14", "1e-323"],
    "domain": ["-6,6", "[[-6,6],[-4,4]]", "6,-6"],
    "d": ["1", "2", "3", "100000"],
    "n": ["1", "3", "8", "1000000000"],
    "frames": ["2", "3", "1000000000"],
    "cells": ["10", "[8,8]", "1000000000"],
    "draws": ["1", "2", "1000000000"],
    "segment": ["1", "100"],
    "heads": ["1", "2", "3"],
}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A command of any kind, with files that it may find in its folder."""
    make = draw(st.sampled_from([_short_run, *6 * MAKERS, *12 * (_simulate,)]))
    files = draw(_files())
    return Case(tuple(draw(make())), files)


@st.composite
def _option(draw: st.DrawFn, key: str) -> list[str]:
    flag = f"--{key.replace('_', '-')}"
    if key == "projected":
        return [flag]
    likely = st.sampled_from(TELLING[key]) if key in TELLING else NUMBERS
    if key in MATRICES:
        likely = st.one_of(NUMBERS, LISTS, FILES, LAWS)
    return [flag, draw(st.one_of(likely, likely, ANYTHING))]


@st.composite
def _options(draw: st.DrawFn) -> list[str]:
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=4, unique=True))
    return [word for key in keys for word in draw(_option(key))]


@st.composite
def _simulate(draw: st.DrawFn) -> list[str]:
    """`simulate` as a dry run only."""
    head = ["simulate", *draw(st.lists(PLACES, max_size=1))]
    options = draw(
        st.sampled_from([[], ["--json"], ["--preset", "moons"], ["--from", ""]])
    )
    if options[:1] == ["--from"]:
        options = ["--from", draw(PLACES), "--at", draw(NUMBERS)]
    words = draw(st.lists(WORDS, max_size=1)) if draw(st.booleans()) else []
    return [*head, *draw(_options()), *options, *words, "--dry-run"]


@st.composite
def _short_run(draw: st.DrawFn) -> list[str]:
    """A very short run."""
    attention = draw(st.sampled_from(["softmax", "relu", "exp"]))
    size = draw(st.sampled_from(["1", "1e308", "1e-320", "1e154", "-1e200", "0"]))
    key = draw(st.sampled_from(["--A", "--V", "--mean", "--weights", "--epsilon"]))
    tiny = ["--n", "3", "--t", "1e-3", "--frames", "2", "--max-steps", "50"]
    out = draw(st.sampled_from([[], ["--out", "/proc/x"], ["--out", "file"]]))
    return ["simulate", *tiny, "--attention", attention, key, size, *out, "--json"]


@st.composite
def _sweep(draw: st.DrawFn) -> list[str]:
    """A sweep with an unwritable output: it ends before its first cell."""
    over = draw(
        st.one_of(ANYTHING, st.sampled_from(["A=1:2:3", "n=1|2", "A[0,0]=1|2"]))
    )
    axis = draw(st.sampled_from(["", "A=", "cov=", "A[0,1]=", "mask="]))
    head = draw(st.lists(PLACES.filter(lambda p: p != "good"), max_size=1))
    options = draw(
        st.lists(st.tuples(st.sampled_from(["--workers", "--chunk"]), NUMBERS))
    )
    flat = [word for pair in options[:1] for word in pair]
    return ["sweep", *head, "--over", axis + over, *draw(_options()), *flat]


@st.composite
def _compare(draw: st.DrawFn) -> list[str]:
    """A comparison with at most one measure: there is nothing to compare."""
    measures = draw(
        st.one_of(st.sampled_from(["points", "gird", "points,points"]), WORDS)
    )
    return ["compare", *draw(_options()), "--measures", measures]


@st.composite
def _run_command(draw: st.DrawFn) -> list[str]:
    command = draw(st.sampled_from(["plot", "animate", "export", "resume", "show"]))
    run = draw(st.one_of(PLACES, PLACES, st.just("good")))
    options = {
        "plot": [["--panel", draw(WORDS)], ["--at", draw(NUMBERS)], ["--html"]],
        "animate": [["--fps", draw(NUMBERS)], ["--out", "none/a.gif"]],
        "export": [[draw(PLACES)], ["out.csv"], ["out.npz"], ["file/x.csv"]],
        "resume": [[], ["--json"]],
        "show": [["--toml"], ["--check"], ["--json"], [], ["--json", "--toml"]],
    }[command]
    if run == "good" and command == "plot":
        options = options[:1]  # a picture takes a second, and there is no such panel
    if run == "good" and command == "animate":
        options = options[1:]  # a film takes minutes, and there is no such folder
    return [command, run, *draw(st.sampled_from(options))]


@st.composite
def _missing_experiment(draw: st.DrawFn) -> list[str]:
    """Long commands are asked only for names that do not exist."""
    absent = WORDS.filter(lambda w: w and not w.startswith("-")).map(
        "no-such-{}".format
    )
    return draw(
        st.sampled_from(
            [
                ["verify", draw(absent)],
                ["verify", "explain", draw(absent)],
                ["verify", draw(absent), "--seed", draw(NUMBERS)],
                ["verify", draw(absent), "--workers", draw(NUMBERS)],
                ["verify", draw(absent), "--html", draw(PLACES)],
                ["verify", draw(absent), "--replay", draw(PLACES)],
                ["bench", "--results", draw(PLACES)],
                ["bench", "--case", draw(absent), "--quick", "--long"],
                ["reproduce", draw(absent)],
                ["reproduce", draw(absent), "--as", draw(WORDS)],
            ]
        )
    )


@st.composite
def _named_object(draw: st.DrawFn) -> list[str]:
    kinds = ["clouds", "masks", "presets", "models", "solvers", "statments"]
    command = draw(st.sampled_from(["list", "show", "models", "info", "nothing"]))
    if command == "models":
        return [
            "models",
            "inspect",
            draw(PLACES),
            *draw(st.sampled_from([[], ["--json"]])),
        ]
    if command == "list":
        return ["list", draw(st.one_of(st.sampled_from(kinds), WORDS))]
    return [command, *draw(st.lists(WORDS, max_size=2))]


@st.composite
def _model(draw: st.DrawFn) -> list[str]:
    """A malformed folder of a model."""
    ways = [
        ["models", "inspect", "model"],
        ["simulate", "--model", "model", "--text", "the cat", "--dry-run"],
        ["simulate", "--model", "model", "--text", draw(ANYTHING), "--dry-run"],
        [
            "simulate",
            "--model",
            "model",
            "--text",
            "a",
            "--model-layers",
            draw(ANYTHING),
            "--dry-run",
        ],
    ]
    return draw(st.sampled_from(ways))


@st.composite
def _jumble(draw: st.DrawFn) -> list[str]:
    """Random words after a command that does nothing by itself."""
    idle = [name for name in COMMANDS if name not in ("verify", "bench", "simulate")]
    heads = [name for name in idle if name not in ("info", "list", "sweep")]
    words = draw(st.lists(st.one_of(WORDS, NUMBERS, PLACES), min_size=1, max_size=5))
    flags = draw(
        st.lists(st.sampled_from(["--help", "--json", "--debugg", "-h"]), max_size=2)
    )
    return [draw(st.sampled_from(heads)), f"no-such-{words[0]}", *words[1:], *flags]


MAKERS = [
    _simulate,
    _sweep,
    _compare,
    _run_command,
    _missing_experiment,
    _named_object,
    _model,
    _jumble,
]


@st.composite
def _toml(draw: st.DrawFn) -> bytes:
    value = st.one_of(
        ANYTHING, ANYTHING.map(json.dumps), st.just("0x" + "f" * LARGE_NUMBER)
    )
    keys = draw(st.lists(st.sampled_from([*KEYS, *HIDDEN_KEYS, "nothing"]), max_size=3))
    lines = [f"{key} = {draw(value)}" for key in keys]
    table = draw(st.sampled_from(["", "[[layers]]\nt = 0\nA = 1\n", "[[terms]]\n"]))
    times = draw(st.sampled_from([1, 1, 1, 2, 5000]))
    return ("\n".join(lines) + "\n" + table * times).encode(errors="replace")


@st.composite
def _array(draw: st.DrawFn) -> bytes:
    kinds = st.sampled_from(
        [float, np.float32, int, complex, bool, np.longdouble, "U3"]
    )
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    stream = io.BytesIO()
    np.save(stream, np.ones(shape).astype(draw(kinds)))
    whole = stream.getvalue()
    liar = whole.replace(b"(", b"(999999999999,", 1)
    cut = whole[: draw(st.integers(0, len(whole)))]
    return draw(st.sampled_from([whole, whole, cut, liar, b"", b"\x93NUMPY"]))


@st.composite
def _table(draw: st.DrawFn) -> bytes:
    rows = draw(st.lists(st.lists(st.one_of(NUMBERS, WORDS), max_size=3), max_size=3))
    return "\n".join(map(",".join, rows)).encode(errors="replace")


@st.composite
def _corrupted_json(draw: st.DrawFn, values: dict[str, Any]) -> bytes:
    """Valid JSON with some corrupted values."""
    new = draw(st.dictionaries(st.sampled_from(sorted(values)), JSON, max_size=2))
    text = json.dumps({**values, **new})
    return draw(st.one_of(st.just(text), st.just(text), DEEP, ANYTHING)).encode(
        errors="replace"
    )


@st.composite
def _files(draw: st.DrawFn) -> dict[str, bytes]:
    report = draw(st.one_of(DEEP, JSON.map(json.dumps))).encode(errors="replace")
    files = {
        "file": b"",
        "spec.toml": draw(_toml()),
        "report.json": report,
        "x.npy": draw(_array()),
        "x.csv": draw(_table()),
    }
    config, tokenizer, weights = _right_model()
    files["model/config.json"] = draw(_corrupted_json(config))
    files["model/tokenizer.json"] = draw(_corrupted_json(tokenizer))
    cut = weights[: draw(st.integers(0, len(weights)))]
    files["model/model.safetensors"] = draw(st.sampled_from([weights, weights, cut]))
    return files


@cache
def _right_model() -> tuple[dict[str, Any], dict[str, Any], bytes]:
    from bert_reference import write

    folder = write(Path("right"))
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    return config, tokenizer, (folder / "model.safetensors").read_bytes()
