"""Which character comes next? A language model of the text of King James.

It stands in for the characters of LM1B in tay2020, Tables 4 and 8.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8
from typing_extensions import override

from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.measures import Points
from meanfield.training._task import (
    AbstractTask,
    Item,
    Items,
    Split,
    cross_entropy,
    tasks,
)
from meanfield.training.networks import (
    Encoder,
    Perceptron,
    Variant,
    before,
    self_attention,
)
from meanfield.training.networks._sequence import in_sequence

from ._bible import KING_JAMES, chapters

D, HIDDEN, HEADS, WIDTH = 128, 512, 4, 32
EVERY, FOLDS = 20, 5  # every 20th chapter examines, beginning at one of five
EXAMINED = 600  # windows


class CharacterNetwork(eqx.Module):
    """Characters, blocks of attention and perceptrons, and a linear reader.

    Attributes:
        embedding: of characters.
        places: what is added to each.
        encoder: the blocks.
        norm: before the reader.
        reader: gives a score to each character that may come next.
    """

    embedding: Float[Array, "symbols d"]
    places: Float[Array, "n d"]
    encoder: Encoder
    norm: eqx.nn.LayerNorm
    reader: eqx.nn.Linear

    def __call__(self, text: Int[Array, " n"]) -> Float[Array, "n symbols"]:
        """At each character, the scores of the next."""
        x = self.encoder(self.tokens(text)).tokens.x
        return jax.vmap(lambda state: self.reader(self.norm(state)))(x)

    def tokens(self, text: Int[Array, " n"]) -> Points:
        """The tokens as the first block meets them."""
        # A product, for sums of gathered derivatives have no order on accelerators.
        known = jax.nn.one_hot(text, self.embedding.shape[0], dtype=self.places.dtype)
        return in_sequence(known @ self.embedding + self.places)


@dataclass(frozen=True)
class Characters(AbstractTask):
    """The text of King James, character by character: which comes next?

    Chapters are cut into windows, and what is left at their ends is not used.

    Attributes:
        context: characters of a window.
        layers: of attention and a perceptron.
        windows: that teach, in each epoch the same.

    Raises:
        InvalidInputError: if a window has less than two characters, another number is
            not positive, or there are not so many windows.
    """

    context: int = 256
    layers: int = 4
    windows: int = 12_000

    def __post_init__(self) -> None:
        if self.context < 2 or self.layers < 1 or self.windows < 1:
            raise InvalidInputError(
                "`context` is at least 2, and `layers` and `windows` are positive; got "
                f"{self.context}, {self.layers} and {self.windows}."
            )

    @override
    def items(self) -> Items:
        return {"text": windows_of(self.context)[0]}

    @override
    def split(self, seed: int) -> Split:
        """Windows of whole chapters examine, five folds in turn, of one size."""
        _, chapter = windows_of(self.context)
        folds = [chapter % EVERY == EVERY // FOLDS * fold for fold in range(FOLDS)]
        held = folds[seed % FOLDS]
        n_test = min(EXAMINED, *(int(fold.sum()) for fold in folds))
        n_train = min(int((~fold).sum()) for fold in folds)
        if self.windows > n_train or n_test == 0:
            raise InvalidInputError(
                f"The text has {n_train} windows of {self.context} characters that "
                f"teach, and {n_test} that examine; `windows` is {self.windows}."
            )
        rng = np.random.default_rng(seed % FOLDS)
        train, test = (rng.permutation(np.flatnonzero(part)) for part in (~held, held))
        return Split(train[: self.windows], test[:n_test])

    @override
    def network(self, key: PRNGKey, variant: Variant) -> CharacterNetwork:
        keys = jax.random.split(key, 3 + 2 * self.layers)
        n_symbols = len(symbols())
        parts = []
        for one, other in keys[3:].reshape(self.layers, 2):
            parts += [
                self_attention(one, variant, d=D, k=WIDTH, n_heads=HEADS),
                Perceptron(other, d=D, width=HIDDEN),
            ]
        return CharacterNetwork(
            embedding=jax.random.normal(keys[0], (n_symbols, D)),
            places=jax.random.normal(keys[1], (self.context, D)),
            encoder=Encoder(tuple(before(part, D) for part in parts)),
            norm=eqx.nn.LayerNorm(D),
            reader=eqx.nn.Linear(D, n_symbols, key=keys[2]),
        )

    @override
    def refuse(self, network: eqx.Module, variant: Variant) -> None:
        assert isinstance(network, CharacterNetwork)
        if looks_ahead(network):
            raise UnsupportedError(
                f"`{variant.label}` attention sees the characters that are to be "
                "guessed; choose a mask that hides what is later, such as `causal` or "
                "`block-causal:1/16`, or `sparse-sinkhorn-causal`."
            )

    @override
    def measures(
        self, network: eqx.Module, item: Item, key: PRNGKey | None
    ) -> Mapping[str, Float[Array, ""]]:
        """The cross entropy of a character, in nats and in bits."""
        assert isinstance(network, CharacterNetwork)
        text = item["text"].astype(int)
        scores = network(text[:-1])
        entropies = cross_entropy(scores, text[1:])
        loss = jnp.mean(entropies)
        return {"loss": loss, "bits": loss / np.log(2)}


tasks.register("characters")(Characters)


def looks_ahead(network: CharacterNetwork) -> bool:
    """Whether some score depends, be it by a rounding, on a later character.

    Other characters are put at the end of a text, in its latter half, and everywhere
    but in the first place.
    """
    n_symbols, n = network.embedding.shape[0], network.places.shape[0]
    text = np.arange(n) % n_symbols
    scored = eqx.filter_jit(lambda network, text: network(text))
    # One text at a time: side by side, sums may be taken in orders of their own.
    scores = lambda text: np.asarray(scored(network, jnp.asarray(text)))
    first = scores(text)
    for t in (n - 1, n // 2, 1):
        other = np.where(np.arange(n) < t, text, (text + 1) % n_symbols)
        if not np.array_equal(scores(other)[:t], first[:t]):
            return True
    return False


@functools.cache
def symbols() -> str:
    """The characters of the text in the order of their numbers, each once."""
    return "".join(sorted(set().union(*chapters(KING_JAMES))))


@functools.cache
def windows_of(
    context: int,
) -> tuple[UInt8[np.ndarray, "windows n"], Int[np.ndarray, " windows"]]:
    """The numbers of characters of all windows, one more than they see; chapters."""
    numbers = {symbol: number for number, symbol in enumerate(symbols())}
    windows, owners = [], []
    for i, text in enumerate(chapters(KING_JAMES)):
        coded = np.array([numbers[symbol] for symbol in text], np.uint8)
        count = len(coded) // (context + 1)
        windows.append(coded[: count * (context + 1)].reshape(count, context + 1))
        owners.append(np.full(count, i))
    return np.concatenate(windows), np.concatenate(owners)
