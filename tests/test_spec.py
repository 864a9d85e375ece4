"""Specs are strict, and equal in TOML, JSON and memory."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from meanfield.errors import InputFileError, InvalidInputError
from meanfield.spec import (
    HEADINGS,
    KEYS,
    RunSpec,
    has_key,
    measures,
    parse,
    presets,
    read_toml,
    resolve_paths,
)
from meanfield.spec._keys import keys_of

EVERYTHING = {
    "attention": "l2",
    "A": [[1.0, 0.5], [0.1, -2e-7]],
    "V": -1.0,
    "epsilon": 0.3,
    "d": 2,
    "times": [0.0, 0.1, 0.30000000000000004],
    "text": 'a "quote", a \\, a tab\t, a line\n, é, 日本, 🂡 and \x7f\x01',
    "model": None,
    "terms": [{"attention": "softmax"}, {"V": [[0.0, 1.0], [1.0, 0.0]]}],
    "layers": [{"t": 0.0, "attention": "softmax"}, {"t": 1.5, "epsilon": 1.0}],
}
MEASURES = tuple(measures)
KEYS_WITHOUT_TEXT = {key: value for key, value in EVERYTHING.items() if key != "text"}


def message(values: dict) -> str:
    with pytest.raises(InvalidInputError) as error_info:
        parse(values)
    return str(error_info.value)


def test_a_spec_round_trips_through_toml() -> None:
    spec = parse(KEYS_WITHOUT_TEXT)
    restored = parse(tomllib.loads(spec.toml()))
    assert restored == spec
    assert restored.as_json() == spec.as_json()


def test_any_text_round_trips_through_toml() -> None:
    spec = parse({"model": "minilm", "text": EVERYTHING["text"]})
    assert parse(tomllib.loads(spec.toml())).text == EVERYTHING["text"]


def test_explicit_defaults_stay_explicit() -> None:
    """A layer's explicit `softmax` must not become the `l2` of the run."""
    spec = parse(tomllib.loads(parse(KEYS_WITHOUT_TEXT).toml()))
    assert spec.layers[0].model_fields_set == {"t", "attention"}
    assert spec.layers[1].model_fields_set == {"t", "epsilon"}


@pytest.mark.parametrize("name", list(presets))
def test_presets_are_specs(name: str) -> None:
    assert isinstance(parse(presets[name]), RunSpec)


def test_a_spec_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parse({}).n = 3


def test_inapplicable_keys_are_not_suggested() -> None:
    """A term has no time; a layer has."""
    with pytest.raises(InvalidInputError, match=r"no key `terms\.0\.t`") as error_info:
        parse({"terms": [{"t": 1.0}]})
    assert "did you mean `t`" not in str(error_info.value)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"atention": "l2"}, ["`atention`", "did you mean `attention`?"]),
        ({"a": 1.0}, ["`a`", "did you mean `A`?"]),
        ({"layers": [{"t": 0.0, "epsilo": 1.0}]}, ["`layers.0.epsilo`", "`epsilon`"]),
        ({"terms": [{"epsilo": 1.0}]}, ["`terms.0.epsilo`", "`epsilon`"]),
        ({"layers": [{"A": 1.0}]}, ["`layers.0.t` is missing"]),
        ({"n": 1.5}, ["`n`", "1.5", "integer"]),
        ({"n": 0}, ["`n`", "greater than 0"]),
        ({"epsilon": 0}, ["`epsilon`", "greater than 0"]),
        ({"epsilon": -1}, ["`epsilon`", "-1"]),
        ({"frames": 1}, ["`frames`", "2"]),
        ({"measure": "gird"}, ["`measure`", "'grid', 'circle' or 'zonal'"]),
        ({"A": float("nan")}, ["`A`", "finite"]),
        ({"A": [[1.0, float("inf")]]}, ["`A`", "finite"]),
        ({"A": [[1.0, 2.0], [3.0]]}, ["`A`", "different lengths"]),
        ({"cov": []}, ["`cov`", "empty"]),
        ({"terms": [{"Q": [[1.0], []], "K": 1.0}]}, ["`terms.0.Q`", "different"]),
        ({"A": 1, "Q": 1, "K": 1}, ["either `A`, or `Q` and `K`"]),
        ({"Q": 1}, ["`Q` and `K` must be given together"]),
        ({"times": [0.0, 2.0, 1.0]}, ["`times`", "increasing"]),
        ({"times": [0.0]}, ["`times`", "two"]),
        ({"layers": [{"t": 1.0}, {"t": 1.0}]}, ["`layers`", "increase"]),
        ({"depth": "interpolated"}, ["`layers`"]),
        ({"source": "run"}, ["`at`"]),
        ({"text": "words"}, ["`text` needs `model`"]),
        ({"model": "minilm"}, ["`model` needs initial tokens"]),
        ({"forward": True}, ["`forward` needs `model`"]),
    ],
)
def test_invalid_specs_name_the_key(values: dict, words: list[str]) -> None:
    text = message(values)
    assert "\n" not in text
    assert [word for word in words if word not in text] == [], text


@pytest.mark.parametrize(
    ("values", "idle"),
    [
        ({"times": [0.0, 1.0], "t": 1.0}, "t"),
        ({"dt": 0.1, "rtol": 1e-3}, "rtol"),
        ({"init": "@x.npy", "n": 3}, "n"),
        ({"model": "minilm", "text": "words", "epsilon": 2.0}, "epsilon"),
        ({"model": "minilm", "text": "words", "n": 5}, "n"),
        ({"model": "minilm", "text": "words", "forward": True, "t": 1.0}, "t"),
        (
            {"model": "minilm", "text": "a", "forward": True, "observe": "energy"},
            "observe",
        ),
        ({"model": "minilm", "text": "words", "forward": True, "rtol": 0.1}, "rtol"),
        ({"source": "run", "at": 0.0, "cov": 2.0}, "cov"),
        ({"A": 1.0, "layers": [{"t": 0.0, "A": 2.0}]}, "A"),
        ({"V": 1.0, "layers": [{"t": 0.0, "V": 2.0}]}, "V"),
    ],
)
def test_a_key_without_effect_is_rejected(values: dict, idle: str) -> None:
    text = message(values)
    assert f"`{idle}`" in text
    assert "leave" in text


def test_null_omits_optional_keys() -> None:
    """By `--stop null`, and by `null` in a JSON file."""
    absent = [k for k, field in RunSpec.model_fields.items() if field.default is None]
    assert {"stop", "options", "drift", "observe", "model_layers"} < set(absent)
    assert parse(dict.fromkeys(absent)) == parse({})
    assert parse({"layers": [{"t": 0.0, "options": None}]}).layers[0].options is None
    with pytest.raises(InvalidInputError, match="`n`"):
        parse({"n": None})


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    """Windows editors write it, with their line endings."""
    text = 'measure = "gaussian"\r\nA = -1.0\r\n'
    (tmp_path / "run.toml").write_bytes(text.encode("utf-8-sig"))
    assert read_toml(tmp_path / "run.toml") == {"measure": "gaussian", "A": -1.0}
    (tmp_path / "run.toml").write_bytes(text.encode("utf-16"))
    with pytest.raises(InputFileError, match=r"run.toml` is not UTF-8 text; save"):
        read_toml(tmp_path / "run.toml")


def test_spec_files_are_relative_to_the_toml(tmp_path: Path) -> None:
    folder = tmp_path / "specs"
    folder.mkdir()
    (folder / "spec.toml").write_text(
        'A = "@A.npy"\nV = "normal"\ninit = "@/data/x.csv"\n[[terms]]\nV = "@../V.npy"'
    )
    values = read_toml(folder / "spec.toml")
    assert values["A"] == f"@{folder}/A.npy"
    assert values["init"] == "@/data/x.csv"
    assert values["V"] == "normal"
    assert values["terms"][0]["V"] == f"@{folder}/../V.npy"


def test_a_known_model_is_not_a_path(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert resolve_paths({"model": "minilm"}, tmp_path) == {"model": "minilm"}
    assert resolve_paths({"model": "mine"}, tmp_path) == {
        "model": str(tmp_path / "mine")
    }


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.toml", None, "no file"),
        ("bad.toml", b"n = = 3", "not valid TOML"),
        ("binary.toml", b"\xff\xfe\x00", "is not UTF-8 text"),
    ],
)
def test_an_invalid_spec_file_is_an_input_error(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputFileError, match=words) as error_info:
        read_toml(tmp_path / name)
    assert name in str(error_info.value)


def test_specs_load_no_jax() -> None:
    code = "import sys, meanfield.spec; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_key_has_its_rules() -> None:
    """Its row names only existing keys, measures and groups."""
    assert list(KEYS) == list(RunSpec.model_fields)
    for name, row in KEYS.items():
        assert {*row.replaces, *(row.brings or ("", ()))[1]} <= KEYS.keys() - {name}
        assert {*row.excluded_measures, *(row.required_measure or ())[:1]} <= set(
            MEASURES
        )
        assert (row.group is None) == (name in ("source", "layers", "terms"))
        assert row.heading in (None, *HEADINGS)


def test_a_key_without_a_row_is_rejected() -> None:
    class Silent(RunSpec):
        whim: int = 1

    with pytest.raises(TypeError, match="`whim` needs one `Key`"):
        keys_of(Silent)


INAPPLICABLE_KEYS = [
    (name, m) for name, row in KEYS.items() for m in (*row.excluded_measures, *MEASURES)
]
INAPPLICABLE_KEYS = [(name, m) for name, m in INAPPLICABLE_KEYS if not has_key(m, name)]
VALUES = {"box": "affine", "starts": "grid:2", "projected": True, "cfl": 0.5}
VALUES |= {
    "domain": [0, 1],
    "space": "sphere",
    "solver": "tsit5",
    "reduction": "dense",
    "rtol": 0.1,
    "clock": "arclength",
    "normalise": "pre",
    "mask": "causal",
    "flow_of": ["entropy"],
}


@pytest.mark.parametrize(("name", "measure"), sorted(set(INAPPLICABLE_KEYS)))
def test_an_inapplicable_key_is_rejected(name: str, measure: str) -> None:
    row = KEYS[name]
    message = row.excluded_measures.get(measure)
    if message is None:
        assert row.required_measure is not None
        message = row.required_measure[1]
    with pytest.raises(InvalidInputError, match=re.escape(f"{message}: ")):
        parse({"measure": measure, name: VALUES.get(name, 1)})
