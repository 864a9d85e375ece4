"""Trained networks: unreadable files are rejected in one helpful line."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bert_reference import TEXT, WEIGHTS, synthetic_arrays, write, write_heads
from conftest import CommandResult
from tokenizers import Tokenizer

from meanfield import models
from meanfield.errors import (
    InputFileError,
    InvalidInputError,
    PrecisionError,
    UnsupportedError,
)
from meanfield.models._expansion import expansion
from meanfield.spec import parse


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "tiny")


BROKEN_CONFIGS = {
    "gpt2.*known: bert": {"model_type": "gpt2"},
    "RobertaModel.*known: bert": {"model_type": "", "architectures": ["RobertaModel"]},
    "num_attention_heads.*divide": {"num_attention_heads": 5},
    "hidden_size": {"hidden_size": "wide"},
    "position_embedding_type": {"position_embedding_type": "relative_key"},
    "is_decoder": {"is_decoder": True},
    r"no array `encoder\.layer\.2": {"num_hidden_layers": 3},
    "states 1 layer, but": {"num_hidden_layers": 1},
    "shape": {"hidden_size": 6},
    "num_hidden_layers": {"num_hidden_layers": 10**12},
}
NO_NAMES: list[Any] = [[1], [[["BertModel"]]], {"a": 1}, 7, [None], True, [{}]]


@pytest.mark.parametrize("classes", NO_NAMES, ids=str)
def test_invalid_architecture_names_are_ignored(
    tmp_path: Path, classes: object
) -> None:
    folder = write(tmp_path / "named", config={"architectures": classes})
    assert models.inspect(models.load(folder)).architectures == ()
    folder = write(
        tmp_path / "nameless", config={"architectures": classes, "model_type": ""}
    )
    with pytest.raises(InputFileError, match="architecture `nothing`"):
        models.layers(models.load(folder))


@pytest.mark.parametrize("message", BROKEN_CONFIGS)
def test_a_config_that_does_not_fit_says_why(tmp_path: Path, message: str) -> None:
    folder = write(tmp_path / "misfit", config=BROKEN_CONFIGS[message])
    with pytest.raises(InputFileError, match=message) as error_info:
        models.layers(models.load(folder))
    assert "\n" not in str(error_info.value)


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "tokenizer.json"])
def test_files_missing_or_damaged_are_named(folder: Path, name: str) -> None:
    path = folder / name
    content = path.read_bytes()
    for length in (0, 5, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(InputFileError, match=name) as error_info:
            models.embed(models.load(folder), TEXT)
        assert "\n" not in str(error_info.value)
    path.unlink()
    with pytest.raises(InputFileError, match=f"no file `.*{name}.*a folder holding"):
        models.embed(models.load(folder), TEXT)


CODES = {"int8": "I8", "int32": "I32", "float8_e4m3fn": "F8_E4M3", "bool": "BOOL"}


@pytest.mark.parametrize("dtype", CODES)
def test_weights_that_are_not_of_floating_point_are_rejected(
    tmp_path: Path, dtype: str
) -> None:
    name = "encoder.layer.0.attention.self.query.weight"
    arrays = synthetic_arrays()
    arrays[name] = arrays[name].astype(jnp.dtype(dtype))
    checkpoint = models.load(write(tmp_path / "quantised", arrays=arrays))
    message = f"`{name}` in `.*` is stored as {CODES[dtype]}, .*bfloat16, float32"
    for read in (models.inspect, models.layers):
        with pytest.raises(InputFileError, match=message) as error_info:
            read(checkpoint)
        assert "\n" not in str(error_info.value)


def test_embeddings_that_are_quantised_are_rejected(tmp_path: Path) -> None:
    name = "embeddings.word_embeddings.weight"
    arrays = synthetic_arrays()
    arrays[name] = np.round(100 * arrays[name]).astype(np.int8)
    with pytest.raises(InputFileError, match=f"`{name}` in .* is stored as I8"):
        models.embed(models.load(write(tmp_path / "codes", arrays=arrays)), TEXT)


def test_integer_tensors_that_are_no_weights_are_ignored(tmp_path: Path) -> None:
    arrays = synthetic_arrays()
    with_buffer = arrays | {"embeddings.position_ids": np.arange(16)[None]}
    plain = models.hidden_states(models.load(write(tmp_path / "plain")), TEXT)
    folder = write(tmp_path / "buffered", arrays=with_buffer)
    states = models.hidden_states(models.load(folder), TEXT)
    np.testing.assert_array_equal(states[0], plain[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_every_floating_point_that_is_named_is_read(tmp_path: Path, dtype: str) -> None:
    """Weights that all formats represent exactly give the same states."""
    exact = {k: a.astype(jnp.bfloat16) for k, a in synthetic_arrays().items()}
    exact = {k: a.astype(np.float32) for k, a in exact.items()}
    single = models.load(write(tmp_path / "single", arrays=exact))
    stored_arrays = {k: a.astype(jnp.dtype(dtype)) for k, a in exact.items()}
    checkpoint = models.load(write(tmp_path / "other", arrays=stored_arrays))
    states = [models.hidden_states(model, TEXT)[0] for model in (single, checkpoint)]
    # Half precision holds what is below 6e-5 to 3e-8, and all else as it is.
    np.testing.assert_allclose(states[0], states[1], rtol=0, atol=1e-5)


def test_a_bare_vocabulary_error_explains_the_conversion(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "vocab.txt")
    with pytest.raises(
        InputFileError, match=r"vocab\.txt alone.*save_pretrained"
    ) as no:
        models.embed(models.load(folder), TEXT)
    assert "\n" not in str(no.value)


def test_repr_of_a_checkpoint_is_one_line(folder: Path) -> None:
    text = repr(models.load(folder))
    assert text.startswith("<Checkpoint: type = bert, arrays = 37, dtypes = F32, ")
    assert str(folder) in text
    assert "\n" not in text


def test_json_of_the_wrong_kind_is_rejected(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InputFileError, match="not a valid tokenizer"):
        models.embed(models.load(folder), TEXT)
    (folder / "config.json").write_text("[1]")
    with pytest.raises(InputFileError, match="one JSON object"):
        models.load(folder)


def test_a_tokenizer_of_another_network_is_rejected(tmp_path: Path) -> None:
    arrays = synthetic_arrays()
    name = "embeddings.word_embeddings.weight"
    arrays[name] = arrays[name][:5]
    folder = write(tmp_path / "short", arrays=arrays)
    with pytest.raises(InputFileError, match=r"shape \(5, 12\).*needs row 9"):
        models.embed(models.load(folder), TEXT)


@pytest.mark.parametrize(
    "sizes", [{"dimension": 10**29}, {"dimension": 5}, {"n_layers": 2**31}]
)
def test_sizes_that_no_array_has_are_rejected(tmp_path: Path, sizes: dict[str, int]):
    """The config determines sampled tokens and allocated lists."""
    write_heads(tmp_path / "heads")
    file = tmp_path / "heads" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **sizes}))
    with pytest.raises(InputFileError, match="do not belong together"):
        models.read(models.load(tmp_path / "heads"))


def test_a_long_name_of_an_architecture_is_not_repeated(folder: Path):
    file = folder / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "model_type": [0] * 100_000}))
    with pytest.raises(InputFileError, match="names the architecture") as error_info:
        models.read(models.load(folder))
    assert len(str(error_info.value)) < 500


def test_a_folder_without_a_model_is_rejected(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="did you mean `minilm`"):
        models.load("minilmm")
    with pytest.raises(InputFileError, match="no folder"):
        models.load(tmp_path / "nowhere")
    with pytest.raises(InputFileError, match="is a file; pass a folder"):
        models.load(folder / WEIGHTS)


def test_unknown_layers_and_heads_are_rejected(folder: Path) -> None:
    checkpoint = models.load(folder)
    choices: tuple[tuple[dict[str, Any], str], ...] = (
        ({"layers": 2}, "no layer 2.*has 2, numbered 0 to 1"),
        ({"layers": [0, -1]}, "no layer -1"),
        ({"layers": []}, "at least one layer"),
        ({"heads": 3}, "no head 3"),
        ({"heads": [0, 0]}, "distinct"),
        ({"times": [0, 1]}, "3 numbers for 2 layers"),
        ({"dtype": "float16"}, "float32 or float64"),
    )
    for choice, message in choices:
        with pytest.raises(InvalidInputError, match=message):
            models.layers(checkpoint, **choice)


def test_double_precision_needs_jax_to_allow_it(folder: Path) -> None:
    checkpoint = models.load(folder)
    with jax.enable_x64(False):
        assert models.layers(checkpoint).times.dtype == np.float32
        with pytest.raises(PrecisionError, match="set_precision"):
            models.layers(checkpoint, dtype="float64")
        with pytest.raises(PrecisionError, match="set_precision"):
            models.embed(checkpoint, TEXT, dtype="float64")


def test_text_that_is_not_unicode_is_rejected(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="not valid Unicode at character 4"):
        models.embed(models.load(folder), "the \udcff")


@pytest.mark.parametrize("package", ["safetensors", "tokenizers"])
def test_a_missing_extra_gives_the_install_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnsupportedError, match=r'install "meanfield-attention\[models'):
        models.embed(models.load(folder), TEXT)


def test_a_too_long_text_is_rejected_before_tokenising(folder: Path) -> None:
    """The tokenizer would need a hundred bytes per letter to find out."""
    (folder / "tokenizer.json").write_text("never read")
    with pytest.raises(InvalidInputError, match=r"2000000 characters.*16 positions"):
        models.embed(models.load(folder), "a " * 1_000_000)


DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
EMPTY = {"type": "Replace", "pattern": {"Regex": "b*"}, "content": "xyz"}
PREPEND = {"type": "Prepend", "prepend": "xyz"}
BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
CHAINS = [
    [DOUBLE],
    [DOUBLE, DOUBLE, DOUBLE],
    [EMPTY],
    [EMPTY, DOUBLE, PREPEND],
    [PREPEND, {"type": "ByteLevel"}],
    [{"type": "Sequence", "normalizers": [EMPTY, EMPTY]}],
]


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("text", ["a", "aaaa", "cab", "\u65e5\u672c", "b"])
def test_normalisers_stay_within_their_length_bound(
    folder: Path, chain: list[dict[str, Any]], text: str
) -> None:
    values = json.loads((folder / "tokenizer.json").read_text())
    values["normalizer"] = {"type": "Sequence", "normalizers": chain}
    normalised = Tokenizer.from_str(json.dumps(values)).normalizer.normalize_str(text)
    assert len(normalised) <= expansion(values) * len(text)


@pytest.mark.parametrize("stage", ["normalizer", "pre_tokenizer", "post_processor"])
def test_a_tokenizer_that_multiplies_a_text_is_not_run(
    folder: Path, stage: str
) -> None:
    """It would allocate terabytes, and abort the process without them."""
    pieces = [{"Sequence": {"id": "A", "type_id": 0}}] * 2
    doubling_normaliser = {
        "type": "TemplateProcessing",
        "single": pieces,
        "pair": [],
        "special_tokens": {},
    }
    kinds = {
        "normalizer": ("normalizers", DOUBLE),
        "pre_tokenizer": ("pretokenizers", {**BYTES, "use_regex": True}),
        "post_processor": ("processors", doubling_normaliser),
    }
    children, rule = kinds[stage]
    path = folder / "tokenizer.json"
    values = json.loads(path.read_text())
    values[stage] = {"type": "Sequence", children: [rule] * 60}
    path.write_text(json.dumps(values))
    with pytest.raises(InputFileError, match="expand each character"):
        models.embed(models.load(folder), TEXT)


def test_a_tokenizer_that_panics_is_no_internal_error(folder: Path) -> None:
    """A regular expression that backtracks forever ends by a panic."""
    values = json.loads((folder / "tokenizer.json").read_text())
    rule = {"type": "Replace", "pattern": {"Regex": "(a+)+b"}, "content": ""}
    (folder / "tokenizer.json").write_text(json.dumps({**values, "normalizer": rule}))
    with pytest.raises(InputFileError, match="tokenizer"):
        models.embed(models.load(folder), "a" * 40)


@pytest.mark.parametrize("text", ["", " \n", "@empty.txt"])
def test_a_text_without_a_word_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """[CLS] and [SEP] alone are no text, typed or in a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_bytes(b"")
    folder = write(tmp_path / "tiny")
    error_info = r"no tokens; enter at least one word|`empty\.txt` contains no text"
    with pytest.raises((InvalidInputError, InputFileError), match=error_info):
        models.embed(models.load(folder), models.resolve_text(text))


def test_unknown_tokens_are_reported(
    tmp_path: Path, cli: Callable[..., CommandResult]
) -> None:
    folder = write(tmp_path / "tiny")
    keys = ("--model", str(folder), "--model-layers", "0", "--t", "0.1", "--frames=2")
    result = cli("simulate", *keys, "--text", "the dog zxqv")
    assert result.code == 0, result.err
    message = f"the tokenizer of {folder} does not know 2 of the text's 5 tokens"
    assert message in result.err
    assert f"of {folder.name}: 5 tokens of “the dog zxqv”, d = 12" in result.out
    assert "tokenizer" not in cli("simulate", *keys, "--text", "the cat sat").err


def test_a_single_layer_or_head_is_a_list_of_one(tmp_path: Path) -> None:
    keys = {"model": str(write(tmp_path / "tiny")), "text": TEXT}
    spec = parse({**keys, "model_layers": 0, "model_heads": 2})
    assert (spec.model_layers, spec.model_heads) == ([0], [2])
    with pytest.raises(InvalidInputError, match="model_layers"):
        parse({**keys, "model_layers": True})


def test_weights_of_pytorch_are_rejected_with_the_way_to_convert_them(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "old")
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    with pytest.raises(
        InputFileError, match=r"convert the file.*python -c.*save_file"
    ) as warnings:
        models.load(folder)
    line = str(warnings.value).split("python -c '")[1].split("'")[0]
    compile(line, "line", "exec")


def test_eigenvalues_of_rounding_are_left_out_of_the_report(
    tmp_path: Path, cli: Callable[..., CommandResult]
) -> None:
    folder = write(tmp_path / "tiny")
    options = ("--model", str(folder), "--text", "cat", "--t", "0.01", "--frames=2")
    line = next(
        line
        for line in cli("simulate", *options).out.splitlines()
        if line.startswith("covariance")
    )
    assert line.endswith("(10 as small as rounding errors omitted)")  # 3 tokens, d = 12
    assert line.count(",") == 1
