"""BERT without the library: a tiny checkpoint, and the whole network in NumPy."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from scipy.special import erf
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers import models as tk

Arrays = dict[str, np.ndarray]
WEIGHTS = "model.safetensors"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "on", "##s", "mat"]
TEXT = "The cats sat on the mat"
CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "hidden_size": 12,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "vocab_size": len(WORDS),
    "max_position_embeddings": 16,
    "intermediate_size": 20,
    "layer_norm_eps": 1e-5,
}


def synthetic_arrays() -> Arrays:
    rng = np.random.default_rng(0)
    d, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (len(WORDS), d),
        "embeddings.position_embeddings.weight": (16, d),
        "embeddings.token_type_embeddings.weight": (2, d),
    }
    norms = ["embeddings.LayerNorm"]
    dense = {}
    for layer in range(CONFIG["num_hidden_layers"]):
        root = f"encoder.layer.{layer}"
        parts = ("self.query", "self.key", "self.value", "output.dense")
        dense |= {f"{root}.attention.{part}": (d, d) for part in parts}
        dense |= {f"{root}.intermediate.dense": (inner, d)}
        dense |= {f"{root}.output.dense": (d, inner)}
        norms += [f"{root}.attention.output.LayerNorm", f"{root}.output.LayerNorm"]
    for name, (rows, columns) in dense.items():
        shapes |= {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}
    for name in norms:
        shapes |= {f"{name}.weight": (d,), f"{name}.bias": (d,)}
    return {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}


def write_tokenizer(path: Path) -> None:
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    tokenizer = Tokenizer(tk.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.enable_truncation(max_length=4)
    tokenizer.enable_padding(length=4)
    tokenizer.save(str(path))


def write(
    folder: Path, *, arrays: Arrays | None = None, config: dict[str, Any] | None = None
) -> Path:
    folder.mkdir(exist_ok=True)
    save_file(synthetic_arrays() if arrays is None else arrays, folder / WEIGHTS)
    (folder / "config.json").write_text(json.dumps(CONFIG | (config or {})))
    write_tokenizer(folder / "tokenizer.json")
    return folder


def write_heads(folder: Path) -> None:
    """Heads of a network, in the format that `train export` writes."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    shapes = {
        "Q": (2, 3, 4),
        "K": (2, 3, 4),
        "value_projection": (2, 3, 4),
        "output_projection": (2, 4, 3),
    }
    arrays = {
        f"layers.{layer}.{name}": rng.normal(size=shape).astype(np.float32)
        for layer in range(2)
        for name, shape in shapes.items()
    }
    save_file(arrays, folder / WEIGHTS)
    sizes = {"n_layers": 2, "n_heads": 2, "dimension": 4, "head_dimension": 3}
    config = {"model_type": "meanfield", **sizes, "seed": 0, "epoch": 1, "training": {}}
    (folder / "config.json").write_text(json.dumps(config))


class Reference:
    """The network as its paper defines it, in NumPy, from the same file."""

    def __init__(self, folder: Path) -> None:
        arrays = load_file(folder / WEIGHTS)
        self.w = {name: array.astype(np.float64) for name, array in arrays.items()}
        self.config = json.loads((folder / "config.json").read_text())

    def dense(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        scale = np.sqrt(x.var(-1, keepdims=True) + self.config["layer_norm_eps"])
        unit = (x - x.mean(-1, keepdims=True)) / scale
        return unit * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def embedding(self, ids: np.ndarray) -> np.ndarray:
        part = lambda kind: self.w[f"embeddings.{kind}_embeddings.weight"]
        x = part("word")[ids] + part("position")[: len(ids)] + part("token_type")[0]
        return self.norm("embeddings.LayerNorm", x)

    def split(self, name: str, x: np.ndarray) -> np.ndarray:
        """One projection, with its columns split among the heads."""
        n_heads = self.config["num_attention_heads"]
        return self.dense(name, x).reshape(len(x), n_heads, -1).transpose(1, 0, 2)

    def scores(self, layer: int, x: np.ndarray) -> np.ndarray:
        root = f"encoder.layer.{layer}.attention.self"
        q, k = self.split(f"{root}.query", x), self.split(f"{root}.key", x)
        return q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])

    def attention(self, layer: int, x: np.ndarray) -> np.ndarray:
        """Contexts of all heads concatenated, then one output projection."""
        root = f"encoder.layer.{layer}.attention"
        scores = self.scores(layer, x)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        context = (p / p.sum(-1, keepdims=True)) @ self.split(f"{root}.self.value", x)
        side_by_side = context.transpose(1, 0, 2).reshape(len(x), -1)
        return self.dense(f"{root}.output.dense", side_by_side)

    def hidden_states(self, ids: np.ndarray) -> list[np.ndarray]:
        """The states that enter each layer, and the output of the last."""
        states = [self.embedding(ids)]
        for layer in range(self.config["num_hidden_layers"]):
            root, x = f"encoder.layer.{layer}", states[-1]
            y = x + self.attention(layer, x)
            y = self.norm(f"{root}.attention.output.LayerNorm", y)
            z = self.dense(f"{root}.intermediate.dense", y)
            z = z * 0.5 * (1 + erf(z / np.sqrt(2)))
            z = self.dense(f"{root}.output.dense", z)
            states.append(self.norm(f"{root}.output.LayerNorm", y + z))
        return states
