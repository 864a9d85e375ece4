"""Presets: named sets of keys."""

from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import override

from meanfield._registry import Registry


class Preset(Mapping[str, Any]):
    """The keys of a preset.

    Args:
        description: one line about the simulation.
        **keys: the keys, as in a TOML file.
    """

    description: str

    def __init__(self, description: str, /, **keys: Any) -> None:
        self.description = description
        self._keys = keys

    @override
    def __getitem__(self, key: str) -> Any:
        return self._keys[key]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    @override
    def __len__(self) -> int:
        return len(self._keys)


presets: Registry[Preset] = Registry("preset")
presets.register("collapse")(
    Preset(
        "pairs of tokens x, -x in the plane that contract to their mean, 0",
        A=-1.0,
        V=1.0,
        init="antithetic",
        d=2,
        t=20.0,
    )
)
presets.register("blow-up")(
    Preset(
        "a Gaussian on the line that blows up at t = 1/4",
        measure="gaussian",
        A=1.0,
        V=1.0,
        cov=2.0,
    )
)
presets.register("two-heads")(
    Preset(
        "a ball of tokens under two heads, each with a row of A",
        A=[[-1.0, 0.5], [0.0, -0.5]],
        heads=2,
        d=2,
        init="ball",
        t=20.0,
    )
)
presets.register("moons")(
    Preset(
        "two moons of tokens in the plane, under A = 2 and V = -1",
        A=2.0,
        V=-1.0,
        init="moons",
        d=2,
        t=3.0,
    )
)
presets.register("minilm")(
    Preset(
        "the tokens of a sentence in the attention layers of MiniLM",
        model="minilm",
        text="Attention moves a cloud of tokens.",
        frames=25,
        precision="single",
        rtol=1e-3,
    )
)
