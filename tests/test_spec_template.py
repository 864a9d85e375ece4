"""The file that `meanfield init` writes: every key, in a valid line."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from meanfield.spec import HEADINGS, KEYS, RunSpec, parse, read_toml, template

TEXT = template()
LINES = dict(re.findall(r"^#((\w+) = .+)$", TEXT.split("# ---- Tables")[0], re.M))
LINES = {key: line for line, key in LINES.items()}
TABLES = TEXT[TEXT.index("#[[layers]]") :]
COMPANIONS: dict[str, dict[str, Any]] = {  # other keys that a key needs
    "Q": {"K": [[1.0]]},
    "K": {"Q": [[1.0]]},
    "context_mean": {"context": "gaussian"},
    "context_cov": {"context": "gaussian"},
    "at": {"source": "run.zarr"},
    "source": {"at": 1.0},
    "model": {"text": "words"},
    "text": {"model": "minilm"},
    "model_layers": {"model": "minilm", "text": "words"},
    "model_heads": {"model": "minilm", "text": "words"},
    "bandwidth": {"init": "@tokens.npy"},
    "positions": {"mask": "causal"},
    "merge": {"clock": "arclength", "space": "sphere"},
    "clock": {"space": "sphere"},
}


def test_the_template_has_every_key_once():
    assert sorted([*LINES, "layers", "terms"]) == sorted(RunSpec.model_fields)


def test_the_template_is_the_default_run():
    assert parse(tomllib.loads(TEXT)) == RunSpec()


@pytest.mark.parametrize("key", list(LINES))
def test_each_template_line_is_valid_when_uncommented(key: str, tmp_path: Path):
    """The value is the default, where there is one."""
    (tmp_path / "run.toml").write_text(LINES[key], encoding="utf-8")
    value = read_toml(tmp_path / "run.toml")[key]
    only = KEYS[key].required_measure
    measure = {} if only is None else {"measure": only[0]}
    spec = parse({**measure, **COMPANIONS.get(key, {}), key: value})
    default = RunSpec.model_fields[key].default
    assert default is None or getattr(spec, key) == default


def test_template_tables_are_valid_when_uncommented():
    values = tomllib.loads(re.sub(r"^#(?! )", "", TABLES, flags=re.M))
    spec = parse(values)
    assert [len(spec.layers), len(spec.terms)] == [2, 1]


def test_common_keys_come_first():
    headings = re.findall(r"^# ---- (.+) ----$", TEXT, re.M)
    assert headings[: len(HEADINGS)] == list(HEADINGS)
    first = TEXT.split("# ---- ")[1]
    assert len(re.findall(r"^#\w+ = ", first, re.M)) == 9


def test_comments_are_distinguished_from_keys():
    """A line is prose, a key, a table, or empty; and it fits an editor."""
    kinds = re.compile(r"# .*|#|#\w+ = .+|#\[\[\w+\]\]|")
    assert all(kinds.fullmatch(line) for line in TEXT.splitlines())
    assert max(map(len, TEXT.splitlines())) <= 88
