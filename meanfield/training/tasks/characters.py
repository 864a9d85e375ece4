"""Task `characters`: a character-level language model of the King James Bible.

It replaces the character-level LM1B task of tay2020, Tables 4 and 8.
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
    Sample,
    Samples,
    Split,
    cross_entropy,
    tasks,
)
from meanfield.training.networks import Encoder, Variant, pre_norm_encoder
from meanfield.training.networks._blocks import apply_linear
from meanfield.training.networks._sequence import sequence_measure

from ._bible import KING_JAMES, chapters

D, HIDDEN_WIDTH, HEADS, WIDTH = 128, 512, 4, 32
TEST_STRIDE, FOLDS = 20, 5  # test chapters of a fold: every 20th, from its own offset
N_TEST = 600  # largest number of test windows


class CharacterNetwork(eqx.Module):
    """Language model: embedding, blocks of attention and perceptrons, linear output.

    Attributes:
        embedding: embedding of the characters.
        position_embedding: embedding of the positions.
        encoder: blocks of attention and perceptrons.
        norm: norm before the output layer.
        output_layer: output layer, with a score for each possible next character.
    """

    embedding: Float[Array, "symbols d"]
    position_embedding: Float[Array, "n d"]
    encoder: Encoder
    norm: eqx.nn.LayerNorm
    output_layer: eqx.nn.Linear

    def __call__(self, text: Int[Array, " n"]) -> Float[Array, "n symbols"]:
        """The scores of the next character, at each position."""
        x = self.encoder(self.tokens(text)).tokens.x
        return apply_linear(self.output_layer, jax.vmap(self.norm)(x))

    def tokens(self, text: Int[Array, " n"]) -> Points:
        """The tokens before the first block."""
        # On accelerators the gradient of `embedding[text]` would sum in random order.
        positions = self.position_embedding
        one_hot = jax.nn.one_hot(text, self.embedding.shape[0], dtype=positions.dtype)
        return sequence_measure(one_hot @ self.embedding + positions)


@dataclass(frozen=True)
class Characters(AbstractTask):
    """Prediction of the next character in the text of the King James Bible.

    Chapters are cut into windows of equal length; the rest of a chapter is not used.

    Attributes:
        context: number of characters in a window.
        layers: number of layers, each an attention and a perceptron.
        windows: number of windows in the training set.

    Raises:
        InvalidInputError: if a window has fewer than two characters, another number is
            not positive, or the text has too few windows to train and to test.
    """

    context: int = 256
    layers: int = 4
    windows: int = 12_000

    def __post_init__(self) -> None:
        if self.context < 2 or self.layers < 1 or self.windows < 1:
            raise InvalidInputError(
                "`context` must be at least 2, and `layers` and `windows` positive; "
                f"got {self.context}, {self.layers} and {self.windows}."
            )

    @override
    def samples(self) -> Samples:
        return {"text": windows_of(self.context)[0]}

    @override
    def split(self, seed: int) -> Split:
        """Splits by chapters: test windows are in the chapters of one of five folds.

        The last training windows, of which validation splits consist, are in chapters
        that belong to no fold, since these are most chapters.
        """
        _, chapter = windows_of(self.context)
        folds = [
            chapter % TEST_STRIDE == TEST_STRIDE // FOLDS * fold
            for fold in range(FOLDS)
        ]
        is_test = folds[seed % FOLDS]
        n_test = min(N_TEST, *(int(fold.sum()) for fold in folds))
        n_train = min(int((~fold).sum()) for fold in folds)
        if self.windows > n_train or n_test == 0:
            raise InvalidInputError(
                f"`windows` must be at most {n_train}, the number of training windows "
                f"in the text; got {self.windows}. The text has {n_test} test windows "
                f"of {self.context} characters."
            )
        rng = np.random.default_rng(seed % FOLDS)
        train, test = (
            rng.permutation(np.flatnonzero(part)) for part in (~is_test, is_test)
        )
        train = train[: self.windows]
        is_in_fold = np.any(folds, axis=0)[train]
        return Split(train[np.argsort(~is_in_fold, kind="stable")], test[:n_test])

    @override
    def network(self, key: PRNGKey, variant: Variant) -> CharacterNetwork:
        keys = jax.random.split(key, 3 + 2 * self.layers)
        n_symbols = len(symbols())
        sizes = {"d": D, "k": WIDTH, "n_heads": HEADS, "width": HIDDEN_WIDTH}
        return CharacterNetwork(
            embedding=jax.random.normal(keys[0], (n_symbols, D)),
            position_embedding=jax.random.normal(keys[1], (self.context, D)),
            encoder=pre_norm_encoder(keys[3:], variant, **sizes),
            norm=eqx.nn.LayerNorm(D),
            output_layer=eqx.nn.Linear(D, n_symbols, key=keys[2]),
        )

    @override
    def check_network(self, network: eqx.Module, variant: Variant) -> None:
        assert isinstance(network, CharacterNetwork)
        if is_noncausal(network):
            raise UnsupportedError(
                f"`{variant.label}` attention sees the characters to be predicted. Use "
                "a causal mask, such as `causal` or `block-causal:1/16`, or "
                "`sparse-sinkhorn-causal`."
            )

    @override
    def measures(
        self, network: eqx.Module, sample: Sample, key: PRNGKey | None
    ) -> Mapping[str, Float[Array, ""]]:
        """Cross entropy per character: `loss` in nats, and `bits`."""
        assert isinstance(network, CharacterNetwork)
        text = sample["text"].astype(int)
        scores = network(text[:-1])
        entropies = cross_entropy(scores, text[1:])
        loss = jnp.mean(entropies)
        return {"loss": loss, "bits": loss / np.log(2)}


tasks.register("characters")(Characters)


def is_noncausal(network: CharacterNetwork) -> bool:
    """Whether a score changes, even in its last bit, if a later character changes.

    The check changes the last character of a text, then its second half, and then
    everything after its first character. Each time it compares the scores at the
    positions before the change.
    """
    n_symbols, n = network.embedding.shape[0], network.position_embedding.shape[0]
    text = np.arange(n) % n_symbols
    forward = eqx.filter_jit(lambda network, text: network(text))
    # One text at a time, since a batched sum may have another order of summation.
    scores = lambda text: np.asarray(forward(network, jnp.asarray(text)))
    first = scores(text)
    for t in (n - 1, n // 2, 1):
        variant_text = np.where(np.arange(n) < t, text, (text + 1) % n_symbols)
        if not np.array_equal(scores(variant_text)[:t], first[:t]):
            return True
    return False


@functools.cache
def symbols() -> str:
    """The distinct characters of the text, sorted; their indices are their codes."""
    return "".join(sorted(set().union(*chapters(KING_JAMES))))


@functools.cache
def windows_of(
    context: int,
) -> tuple[UInt8[np.ndarray, "windows n"], Int[np.ndarray, " windows"]]:
    """Codes of all windows of `context` + 1 characters, and the chapter of each."""
    numbers = {symbol: number for number, symbol in enumerate(symbols())}
    windows, owners = [], []
    for i, text in enumerate(chapters(KING_JAMES)):
        codes = np.array([numbers[symbol] for symbol in text], np.uint8)
        count = len(codes) // (context + 1)
        windows.append(codes[: count * (context + 1)].reshape(count, context + 1))
        owners.append(np.full(count, i))
    return np.concatenate(windows), np.concatenate(owners)
