"""Task `sorting`: a sequence of symbols is sorted by an encoder and a decoder.

Source: tay2020, section 4.1 and Table 1, on a smaller scale. As in the paper, the
decoder can have the causal form of the attention under study. By default its
self-attention is causal softmax for every variant, so that variants without a causal
form can be compared. Cross-attention is softmax. There is no dropout.

Test sequences are up to twice as long as training sequences. A network that sorts every
sequence up to the training length, but none above it, is correct on half of the test
sequences, more than any published network. The quantity `within` counts only sequences
up to the training length.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from typing_extensions import override

from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError
from meanfield.measures import Dense, Points
from meanfield.tokens import Tokens
from meanfield.training._task import (
    AbstractTask,
    Sample,
    Samples,
    Split,
    cross_entropy,
    tasks,
)
from meanfield.training.networks import (
    Decoder,
    DecoderBlock,
    Encoder,
    Variant,
    pre_norm_encoder,
    sinusoids,
)
from meanfield.training.networks._blocks import apply_linear

from ._edits import edit_distance

D, WIDTH, HEADS, LAYERS, MLP_RATIO = 64, 16, 4, 2, 4
FOLDS = 5
# From the attention of the encoder to the attention of which the decoder has the
# causal form.
DECODERS = {"softmax": lambda _: Variant("softmax"), "as-encoder": lambda v: v}


class SequenceNetwork(eqx.Module):
    """Encoder of a source sequence and decoder of a target sequence.

    Attributes:
        embedding: embedding of the symbols; the last two mark the end and the start.
        encoder: encoder with the attention under study.
        decoder: decoder with causal attention.
        norm: norm before the output layer.
        output_layer: output layer, with a score for each next symbol, including the
            end.
    """

    embedding: Float[Array, "symbols d"]
    encoder: Encoder
    decoder: Decoder
    norm: eqx.nn.LayerNorm
    output_layer: eqx.nn.Linear

    def __call__(
        self, source: Int[Array, " n"], length: Int[Array, ""], target: Int[Array, " m"]
    ) -> Float[Array, "m symbols"]:
        """The scores of each symbol of the target, given the symbols before it."""
        return self.scores(self.encoder(self.tokens(source, length)), target)

    def tokens(self, source: Int[Array, " n"], length: Int[Array, ""]) -> Points:
        """The tokens of the source; symbols after its length have weight 0.

        Positions are fractions of the length, and so are the widths of blocks and
        windows.
        """
        x = self._embed(source)
        ranks = jnp.arange(1, source.shape[0] + 1)
        n = length.astype(x.dtype)
        logs = jnp.where(ranks <= length, -jnp.log(n), -jnp.inf)
        return Points(Tokens(x, ranks.astype(x.dtype) / n), logs, Dense())

    def scores(
        self, source: Points, target: Int[Array, " m"]
    ) -> Float[Array, "m symbols"]:
        """The scores of each symbol of the target, for an encoded source."""
        begin = jnp.full(1, self.embedding.shape[0] - 1, target.dtype)
        x = self._embed(jnp.concatenate([begin, target[:-1]]))
        x = self.decoder(x, source)
        return apply_linear(self.output_layer, jax.vmap(self.norm)(x))

    def decode(
        self, source: Int[Array, " n"], length: Int[Array, ""], m: int
    ) -> Int[Array, " m"]:
        """The sequence of `m` symbols from greedy decoding."""
        encoding = self.encoder(self.tokens(source, length))

        def step(target: Array, place: Array) -> tuple[Array, None]:
            symbol = jnp.argmax(self.scores(encoding, target)[place])
            return target.at[place].set(symbol.astype(target.dtype)), None

        return jax.lax.scan(step, jnp.zeros(m, source.dtype), jnp.arange(m))[0]

    def _embed(self, symbols: Int[Array, " n"]) -> Float[Array, "n d"]:
        x = self.embedding[symbols]
        return x + sinusoids(*x.shape).astype(x.dtype)


@dataclass(frozen=True)
class Sorting(AbstractTask):
    """Sorting of sequences of symbols.

    Attributes:
        length: length of the longest training sequence; test sequences are up to twice
            as long. Symbols are drawn with replacement from `2 * length` symbols.
        n_train: number of training sequences of each network, a multiple of 4.
        n_test: number of test sequences.
        decoder: self-attention of the decoder: `softmax`, or `as-encoder` for the
            causal form of the attention of the encoder.

    Raises:
        InvalidInputError: if a number is not positive, 4 does not divide `n_train`, or
            there is no such decoder.
    """

    length: int = 32
    n_train: int = 25600
    n_test: int = 1000
    decoder: str = "softmax"

    def __post_init__(self) -> None:
        if self.length < 1 or self.n_test < 1:
            raise InvalidInputError(
                "`length` and `n_test` must be at least 1; got "
                f"{self.length} and {self.n_test}."
            )
        if self.n_train < 1 or self.n_train % (FOLDS - 1):
            raise InvalidInputError(
                f"`n_train` must be a positive multiple of {FOLDS - 1}, since each "
                f"seed omits one of {FOLDS} folds; got {self.n_train}."
            )
        if self.decoder not in DECODERS:
            raise InvalidInputError(
                f"`decoder` must be `softmax` or `as-encoder`; got `{self.decoder}`."
            )

    @property
    def n_places(self) -> int:
        """Number of positions of a source; a target has one more, for the end."""
        return 2 * self.length

    @override
    def samples(self) -> Samples:
        return _sequences(self.length, self._pool, FOLDS * self.n_test)

    @override
    def split(self, seed: int) -> Split:
        order = np.random.default_rng(1).permutation(self._pool)
        train = np.split(order, FOLDS)
        tests = np.arange(FOLDS * self.n_test).reshape(FOLDS, -1) + self._pool
        train.pop(seed % FOLDS)
        return Split(np.concatenate(train), tests[seed % FOLDS])

    @property
    def _pool(self) -> int:
        """Number of sequences for training; each network uses four fifths of them."""
        return self.n_train // (FOLDS - 1) * FOLDS

    @override
    def network(self, key: PRNGKey, variant: Variant) -> SequenceNetwork:
        """A new network.

        Raises:
            InvalidInputError: if the variant has more blocks than a source has
                positions.
            UnsupportedError: if it has no causal form for the decoder.
        """
        blocks = variant.options.get("blocks", 0)
        if blocks > self.n_places:
            raise InvalidInputError(
                f"`blocks` must be at most {self.n_places}, twice `length`; got "
                f"{blocks}."
            )
        keys = jax.random.split(key, 2 + 3 * LAYERS)
        sizes = {"d": D, "k": WIDTH, "n_heads": HEADS, "width": MLP_RATIO * D}
        encoder_keys, decoder_keys = jnp.split(keys[2:], [2 * LAYERS])
        decoder_variant = DECODERS[self.decoder](variant)
        layers = tuple(
            DecoderBlock(decoder_key, decoder_variant, **sizes)
            for decoder_key in decoder_keys
        )
        symbols = self.n_places + 2
        return SequenceNetwork(
            embedding=jax.random.normal(keys[0], (symbols, D)),
            encoder=pre_norm_encoder(encoder_keys, variant, **sizes),
            decoder=Decoder(layers),
            norm=eqx.nn.LayerNorm(D),
            output_layer=eqx.nn.Linear(D, symbols - 1, key=keys[1]),
        )

    @override
    def measures(
        self, network: eqx.Module, sample: Sample, key: PRNGKey | None
    ) -> Mapping[str, Float[Array, ""]]:
        r"""Quantities of one sample.

        Each symbol is predicted from the correct symbols before it (teacher forcing).
        `correct` is 1 if all symbols and the end are right. This holds if and only if
        greedy decoding gives the target, since both agree up to the first mistake.
        `within` is 1 if, in addition, the sequence is no longer than training
        sequences. `symbols` is the fraction of positions that are right.
        """
        assert isinstance(network, SequenceNetwork)
        target, length = sample["target"], sample["length"]
        scores = network(sample["source"], length, target)
        losses = cross_entropy(scores, target)
        read = jnp.arange(target.shape[0]) <= length  # true up to the end symbol
        right = (jnp.argmax(scores, axis=-1) == target).astype(losses.dtype)
        correct = jnp.min(right, where=read, initial=1.0)
        return {
            "loss": jnp.mean(losses, where=read),
            "correct": correct,
            "within": correct * (length <= self.length),
            "symbols": jnp.mean(right, where=read),
            "length": length.astype(losses.dtype),
        }

    def distance(self, network: eqx.Module, sample: Sample) -> Float[Array, ""]:
        """Edit distance from the decoded sequence to the target, per target symbol.

        The decoded sequence ends before the first end symbol, or at the last position.
        """
        assert isinstance(network, SequenceNetwork)
        target, length = sample["target"], sample["length"]
        symbols = network.decode(sample["source"], length, target.shape[0])
        is_end = jnp.append(symbols == self.n_places, True)
        edits = edit_distance(symbols, target, (jnp.argmax(is_end), length))
        return edits / length


tasks.register("sorting")(Sorting)


@functools.cache
def _sequences(length: int, pool: int, tests: int) -> Samples:
    """Sequences and their sorted copies, the same at every call.

    The lengths of the first `pool` sequences are uniform in 1, …, `length`; the other
    `tests` sequences are up to twice as long. Each is padded with the end symbol, which
    is the largest symbol.
    """
    rng = np.random.default_rng(0)
    places = 2 * length
    longest = np.repeat([length, places], [pool, tests])
    lengths = rng.integers(1, longest, endpoint=True)
    source = rng.integers(0, places, (pool + tests, places + 1))
    source[np.arange(places + 1) >= lengths[:, None]] = places
    return {
        "source": source[:, :-1].astype(np.int32),
        "target": np.sort(source, axis=1).astype(np.int32),
        "length": lengths.astype(np.int32),
    }
