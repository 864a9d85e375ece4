"""What the Tab key offers for a value: names of a registry, words of a key."""

from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

Names = Callable[[object], list[str]]


def named(kind: str) -> Names:
    """The names of a kind, as `meanfield list` has it, read when they are asked for."""

    def names(_: object) -> list[str]:
        from meanfield.cli.names._kinds import rows

        return [row["name"].partition(":")[0] for row in rows(kind)]

    return names


def words(*choices: str) -> Names:
    """Some words."""
    return lambda _: list(choices)


Preset = Annotated[str | None, Parameter(metavar="NAME", completer=named("presets"))]
