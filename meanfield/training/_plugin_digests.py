"""The plugins of a training: it goes on by the code that it began with, or not."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from meanfield.errors import InputFileError, InvalidInputError
from meanfield.storage.disk import sha256

from ._record import Record, lacking

SHOWN = 12  # digits of a digest in a message


def plugin_digests(plugins: Sequence[Path]) -> dict[str, str]:
    """The SHA-256 of each plugin, by its name.

    Raises:
        InputFileError: if one cannot be read.
        InvalidInputError: if two have one name.
    """
    digests = {path.name: sha256(path) for path in plugins}
    for path in plugins:
        if digests[path.name] != sha256(path):
            raise InvalidInputError(
                f"Two plugins have the name `{path.name}`, by which a training would "
                "know them; rename one."
            )
    return digests


def check_same_code(folder: Path, record: Record, plugins: Sequence[Path]) -> None:
    """Compares plugins with those that a training goes on by.

    A training of version 0.2 has no digests of plugins, and is believed.

    Raises:
        InputFileError: if one is missing, new, or has changed since.
    """
    check_same_networks(folder, record, plugins)
    for path in plugins if record.has_digests else ():
        if sha256(path) not in record.plugins.values():
            raise InputFileError(
                f"The training `{folder}` was begun without the plugin `{path.name}`; "
                "leave it out."
            )


def check_same_networks(folder: Path, record: Record, plugins: Sequence[Path]) -> None:
    """Compares plugins with those by which networks were trained; more are accepted.

    Raises:
        InputFileError: if one is missing, or has changed since.
    """
    digests = plugin_digests(plugins)
    check_unchanged(record.plugins, digests)
    for name, digest in record.plugins.items():
        if digest not in digests.values():
            raise InputFileError(lacking(folder, name))


def check_unchanged(recorded: Mapping[str, str], digests: Mapping[str, str]) -> None:
    """Compares plugins with those of the same names that a training began with.

    Raises:
        InputFileError: if one has changed since.
    """
    for name, old in recorded.items():
        new = digests.get(name, old)
        if new != old and old not in digests.values():
            raise InputFileError(
                f"`{name}` is not what it was when the training began: its SHA-256 was "
                f"{old[:SHOWN]}… and is {new[:SHOWN]}…; restore it, or begin anew."
            )
