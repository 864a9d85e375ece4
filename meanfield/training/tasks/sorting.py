"""Sorting: a sequence of symbols is written again in order, by an encoder and decoder.

Source: tay2020, section 4.1 and Table 1, smaller. The attention under study is that of
the encoder alone, where the paper has it on both sides: a decoder looks back by softmax
with a causal mask, and at the source by softmax, whatever the variant. So variants
differ in one place, and those that have no causal form, or none between two sequences,
can be compared. There is no dropout.

What examines is up to twice as long as what teaches. Networks that sort all sequences
of lengths that they were taught, and none beyond, are right half of the time, which is
more than any row of the published table: read `correct` beside `within`.
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
    Item,
    Items,
    Split,
    cross_entropy,
    tasks,
)
from meanfield.training.networks import (
    Decoder,
    DecoderBlock,
    Encoder,
    Perceptron,
    Variant,
    before,
    self_attention,
    sinusoids,
)

from ._edits import edit_distance

D, WIDTH, HEADS, LAYERS, WIDER = 64, 16, 4, 2, 4
FOLDS = 5


class SequenceNetwork(eqx.Module):
    """An encoder of one sequence, and a decoder that writes another, place by place.

    Attributes:
        embedding: of symbols on both sides; the last two are the end and the begin.
        encoder: with the attention under study.
        decoder: by softmax.
        norm: before the reader.
        reader: gives a score to each next symbol, the end among them.
    """

    embedding: Float[Array, "symbols d"]
    encoder: Encoder
    decoder: Decoder
    norm: eqx.nn.LayerNorm
    reader: eqx.nn.Linear

    def __call__(
        self,
        source: Int[Array, " n"],
        length: Int[Array, ""],
        target: Int[Array, " m"],
    ) -> Float[Array, "m symbols"]:
        """The scores of each symbol of the target, given those before it."""
        return self.scores(self.encoder(self.tokens(source, length)), target)

    def tokens(self, source: Int[Array, " n"], length: Int[Array, ""]) -> Points:
        """The source as the encoder meets it: symbols after its length have no weight.

        Positions are shares of the length, so that blocks and windows are, too.
        """
        x = self._placed(source)
        ranks = jnp.arange(1, source.shape[0] + 1)
        n = length.astype(x.dtype)
        logs = jnp.where(ranks <= length, -jnp.log(n), -jnp.inf)
        return Points(Tokens(x, ranks.astype(x.dtype) / n), logs, Dense())

    def scores(
        self, source: Points, target: Int[Array, " m"]
    ) -> Float[Array, "m symbols"]:
        """The same of a source that is encoded."""
        begin = jnp.full(1, self.embedding.shape[0] - 1, target.dtype)
        x = self._placed(jnp.concatenate([begin, target[:-1]]))
        x = self.decoder(x, source)
        return jax.vmap(self.reader)(jax.vmap(self.norm)(x))

    def decoded(
        self, source: Int[Array, " n"], length: Int[Array, ""], m: int
    ) -> Int[Array, " m"]:
        """Symbols written greedily, each the likeliest after those before it."""
        encoded = self.encoder(self.tokens(source, length))

        def step(target: Array, place: Array) -> tuple[Array, None]:
            symbol = jnp.argmax(self.scores(encoded, target)[place])
            return target.at[place].set(symbol.astype(target.dtype)), None

        return jax.lax.scan(step, jnp.zeros(m, source.dtype), jnp.arange(m))[0]

    def _placed(self, symbols: Int[Array, " n"]) -> Float[Array, "n d"]:
        x = self.embedding[symbols]
        return x + sinusoids(*x.shape).astype(x.dtype)


@dataclass(frozen=True)
class Sorting(AbstractTask):
    """Sequences of symbols: which are they in order?

    Attributes:
        length: of the longest sequence that teaches; those that examine are up to twice
            as long. Symbols are drawn, with replacement, from twice as many.
        taught: sequences that teach, a multiple of four.
        examined: sequences that examine.

    Raises:
        InvalidInputError: if a number is not positive, or `taught` no multiple of four.
    """

    length: int = 32
    taught: int = 25600
    examined: int = 1000

    def __post_init__(self) -> None:
        if self.length < 1 or self.examined < 1:
            raise InvalidInputError(
                "`length` and `examined` are numbers from 1 on; got "
                f"{self.length} and {self.examined}."
            )
        if self.taught < 1 or self.taught % (FOLDS - 1):
            raise InvalidInputError(
                f"`taught` is a multiple of {FOLDS - 1}, for each seed leaves out a "
                f"fifth of all; got {self.taught}."
            )

    @property
    def places(self) -> int:
        """Of a source; a target has one more, for the end."""
        return 2 * self.length

    @override
    def items(self) -> Items:
        return _sequences(self.length, self._pool, FOLDS * self.examined)

    @override
    def split(self, seed: int) -> Split:
        order = np.random.default_rng(1).permutation(self._pool)
        train = np.split(order, FOLDS)
        tests = np.arange(FOLDS * self.examined).reshape(FOLDS, -1) + self._pool
        train.pop(seed % FOLDS)
        return Split(np.concatenate(train), tests[seed % FOLDS])

    @property
    def _pool(self) -> int:
        """Sequences of which each seed is taught four fifths."""
        return self.taught // (FOLDS - 1) * FOLDS

    @override
    def network(self, key: PRNGKey, variant: Variant) -> SequenceNetwork:
        """A new network.

        Raises:
            InvalidInputError: if the variant cuts a source into more blocks than it has
                places.
        """
        blocks = variant.options.get("blocks", 0)
        if blocks > self.places:
            raise InvalidInputError(
                f"`blocks` is at most the {self.places} places of a sequence, twice "
                f"`length`; got {blocks}."
            )
        keys = jax.random.split(key, 2 + 3 * LAYERS)
        sizes = {"d": D, "k": WIDTH, "n_heads": HEADS}
        parts = []
        for one, other in keys[2 : 2 + 2 * LAYERS].reshape(LAYERS, 2):
            parts += [
                self_attention(one, variant, **sizes),
                Perceptron(other, d=D, width=WIDER * D),
            ]
        last = keys[2 + 2 * LAYERS :]
        layers = tuple(DecoderBlock(one, width=WIDER * D, **sizes) for one in last)
        symbols = self.places + 2
        return SequenceNetwork(
            embedding=jax.random.normal(keys[0], (symbols, D)),
            encoder=Encoder(tuple(before(part, D) for part in parts)),
            decoder=Decoder(layers),
            norm=eqx.nn.LayerNorm(D),
            reader=eqx.nn.Linear(D, symbols - 1, key=keys[1]),
        )

    @override
    def measures(
        self, network: eqx.Module, item: Item, key: PRNGKey | None
    ) -> Mapping[str, Float[Array, ""]]:
        r"""Of one item, every symbol given those that stand before it in the target.

        `correct` is one where every place is right, the end too. That is so exactly if
        the sequence would be written so greedily: up to the first mistake what is
        written is the target. `within` is one if, besides, the sequence is no longer
        than those that teach; `symbols` the share of places that are right.
        """
        assert isinstance(network, SequenceNetwork)
        target, length = item["target"], item["length"]
        scores = network(item["source"], length, target)
        losses = cross_entropy(scores, target)
        read = jnp.arange(target.shape[0]) <= length  # the end is the last
        right = (jnp.argmax(scores, axis=-1) == target).astype(losses.dtype)
        correct = jnp.min(right, where=read, initial=1.0)
        return {
            "loss": jnp.mean(losses, where=read),
            "correct": correct,
            "within": correct * (length <= self.length),
            "symbols": jnp.mean(right, where=read),
            "length": length.astype(losses.dtype),
        }

    def distance(self, network: eqx.Module, item: Item) -> Float[Array, ""]:
        """Edits from what is written greedily to the target, over its length.

        What is written ends before the first end, or with the last place.
        """
        assert isinstance(network, SequenceNetwork)
        target, length = item["target"], item["length"]
        symbols = network.decoded(item["source"], length, target.shape[0])
        is_end = jnp.append(symbols == self.places, True)
        edits = edit_distance(symbols, target, (jnp.argmax(is_end), length))
        return edits / length


tasks.register("sorting")(Sorting)


@functools.cache
def _sequences(length: int, pool: int, tests: int) -> Items:
    """Sequences and their sorted copies, the same at every call.

    Lengths of the first `pool` are uniform in 1, …, `length`, of the rest up to twice
    that. After the length stands the end symbol, which comes after all others in order.
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
