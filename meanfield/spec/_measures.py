"""What can be moved, by name, and what the keys of a spec are to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from meanfield._registry import Registry, nearest

from ._keys import Key


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A measure, as specs know it.

    The rows of the keys say what they are to points, Gaussians and grids; of any other
    measure its own row says it.

    Attributes:
        what: a few words that say what it is, as `list measures` shows them.
        title: what it is in titles; by default `what`, up to its first comma.
        also: keys of one other measure that it knows too.
        never: keys that mean nothing to it, and what it does instead, as in `has no
            positions`.

    Examples:
        >>> from meanfield.spec import measures
        >>> measures["gaussian"].what
        'a Gaussian, by its mean and covariance'
    """

    what: str
    title: str = ""
    also: tuple[str, ...] = ()
    never: Mapping[str, str] = field(default_factory=dict)

    @property
    def thing(self) -> str:
        """What it is in titles."""
        return self.title or self.what.partition(",")[0]

    def refusal(self, name: str, key: str, row: Key) -> str:
        """Why a key does nothing for this measure, and what to do; else nothing.

        Args:
            name: of this measure.
            key: the name of the key.
            row: what the key says of itself.
        """
        instead = self.never.get(key) or row.never.get(name)
        if instead:
            return f"a {name} {instead}: leave out `{key}`"
        if row.only is None or row.only[0] == name or key in self.also:
            return ""
        return f"`{key}` {row.only[1]}: add `measure = {row.only[0]}`"


measures: Registry[Moved] = Registry("measure")
measures.register("points")(Moved(what="weighted tokens", title="tokens"))
measures.register("gaussian")(Moved(what="a Gaussian, by its mean and covariance"))
measures.register("grid")(Moved(what="a density, on the cells of a grid"))


def known_measure(name: str) -> str:
    """The name itself.

    Raises:
        ValueError: if no measure has it.
    """
    if name not in measures:
        *others, last = map(repr, measures)
        near = nearest(name, measures)
        meant = f"; did you mean `{near}`?" if near else ""
        raise ValueError(
            f"must be {', '.join(others)} or {last}, or what a plugin registers "
            f"(`--plugin FILE.py`){meant}"
        )
    return name
