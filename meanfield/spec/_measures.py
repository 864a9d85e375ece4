"""Registry of the measures, and of the keys of a spec that apply to each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from meanfield._registry import Registry, nearest_name

from ._keys import Key


@dataclass(frozen=True, kw_only=True)
class MeasureInfo:
    """A kind of measure: its description, and the keys that apply to it.

    Each `Key` says whether it applies to points, Gaussians and grids; any other measure
    lists its extra and its excluded keys here.

    Attributes:
        description: short description, as shown by `list measures`.
        title: name in titles; by default `description` up to its first comma.
        extra_keys: keys restricted to another measure that apply to this one too.
        default_dimension: dimension if no key fixes it.
        excluded_keys: keys that do not apply, with what the measure does instead, such
            as `has no positions`.

    Examples:
        >>> from meanfield.spec import measures
        >>> measures["gaussian"].description
        'a Gaussian, by its mean and covariance'
    """

    description: str
    title: str = ""
    default_dimension: int = 1
    extra_keys: tuple[str, ...] = ()
    excluded_keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def display_name(self) -> str:
        """The name in titles."""
        return self.title or self.description.partition(",")[0]

    def conflict(self, name: str, key: str, row: Key) -> str:
        """Reason why a key does not apply to this measure; empty if the key applies.

        Args:
            name: name of this measure.
            key: name of the key.
            row: metadata of the key.
        """
        instead = self.excluded_keys.get(key) or row.excluded_measures.get(name)
        if instead:
            return f"a {name} {instead}: leave out `{key}`"
        required_name, reason = row.required_measure or (name, "")
        if required_name == name or key in self.extra_keys:
            return ""
        return f"`{key}` {reason}: add `measure = {required_name}`"


measures: Registry[MeasureInfo] = Registry("measure")
measures.register("points")(MeasureInfo(description="weighted tokens", title="tokens"))
measures.register("gaussian")(
    MeasureInfo(description="a Gaussian, by its mean and covariance")
)
measures.register("grid")(MeasureInfo(description="a density, on the cells of a grid"))

for _name, _place, _d in (("circle", "circle", 2), ("zonal", "sphere", 3)):
    measures.register(_name)(
        MeasureInfo(
            description=f"a density on the unit {_place}"
            + ", by the angle to an axis" * (_d > 2),
            default_dimension=_d,
            extra_keys=("cells", "cfl"),
        )
    )


def check_measure(name: str) -> str:
    """Returns `name` if it is a registered measure.

    Raises:
        ValueError: if it is not.
    """
    if name not in measures:
        *first_names, last = map(repr, measures)
        closest = nearest_name(name, measures)
        hint = f"; did you mean `{closest}`?" if closest else ""
        raise ValueError(
            f"must be {', '.join(first_names)} or {last}, or a measure registered by a "
            f"plugin (`--plugin FILE.py`){hint}"
        )
    return name
