"""Digests of the files that a run or a training began with, and what became of them.

An owner is what they belong to, in words: `run`, or ``training `folder` ``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from meanfield.errors import InputFileError, InvalidInputError

from .disk import sha256 as sha256

_SHOWN = 12  # digits of a digest in a message


def digests_by_name(files: Sequence[Path], *, owner: str) -> dict[str, str]:
    """The SHA-256 of each file, by its name.

    Raises:
        InputFileError: if one cannot be read.
        InvalidInputError: if two have one name, and not one content.
    """
    paths = {path.name: path for path in files}
    digests = {name: sha256(path) for name, path in paths.items()}
    for path in files:
        if digests[path.name] != sha256(path):
            raise InvalidInputError(
                f"`{path}` and `{paths[path.name]}` have one name, by which the "
                f"{owner} would know them; rename one."
            )
    return digests


def check_unchanged(name: str, old: str, new: str | None, *, owner: str) -> None:
    """Refuses a file whose digest is another now, or which is gone.

    Raises:
        InputFileError: naming it.
    """
    if old != new:
        raise InputFileError(
            f"`{name}` is not what it was when the {owner} began: its SHA-256 was "
            f"{old[:_SHOWN]}… and is {(new or 'none')[:_SHOWN]}…; restore it, or begin "
            "anew."
        )


def missing_digests(
    recorded: Mapping[str, str], files: Sequence[Path], *, owner: str
) -> dict[str, str]:
    """The recorded digests, by name, that are not those of any of these files.

    Raises:
        InputFileError: if one of the files has the name of such a digest: it has
            changed.
    """
    pairs = [(path.name, sha256(path)) for path in files]
    contents = {digest for _, digest in pairs}
    missing = {name: old for name, old in recorded.items() if old not in contents}
    for name, digest in pairs:
        if name in missing:
            check_unchanged(name, missing[name], digest, owner=owner)
    return missing


def check_none_new(
    recorded: Mapping[str, str], plugins: Sequence[Path], *, owner: str
) -> None:
    """Refuses plugins whose digests were not recorded.

    Raises:
        InputFileError: naming the first.
    """
    for path in plugins:
        if sha256(path) not in recorded.values():
            raise InputFileError(
                f"The {owner} was begun without the plugin `{path.name}`; leave it out."
            )
