"""Digests of the input files of a run or a training run, and checks against them.

In messages, `owner` names what the files belong to: `run`, or ``training `folder` ``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from meanfield.errors import InputFileError, InvalidInputError

from .disk import sha256 as sha256

_N_DIGITS = 12  # number of digits of a digest that a message shows


def digests_by_name(files: Sequence[Path], *, owner: str) -> dict[str, str]:
    """The SHA-256 of each file, by its name.

    Raises:
        InputFileError: if a file cannot be read.
        InvalidInputError: if two files have the same name and different contents.
    """
    paths = {path.name: path for path in files}
    digests = {name: sha256(path) for name, path in paths.items()}
    for path in files:
        if digests[path.name] != sha256(path):
            raise InvalidInputError(
                f"`{path}` and `{paths[path.name]}` have the same name, but different "
                f"contents, and the {owner} identifies files by name; rename one."
            )
    return digests


def check_unchanged(name: str, old: str, new: str | None, *, owner: str) -> None:
    """Checks that a file has its old digest; `new` is `None` if there is no file.

    Raises:
        InputFileError: if the digests differ.
    """
    if old != new:
        raise InputFileError(
            f"`{name}` has changed since the {owner} began: its SHA-256 was "
            f"{old[:_N_DIGITS]}… and is now {(new or 'none')[:_N_DIGITS]}…. Restore "
            "the file, or start again."
        )


def missing_digests(
    digests: Mapping[str, str], files: Sequence[Path], *, owner: str
) -> dict[str, str]:
    """The recorded digests, by file name, that match none of the files.

    Raises:
        InputFileError: if a file with the name of a missing digest has changed.
    """
    pairs = [(path.name, sha256(path)) for path in files]
    contents = {digest for _, digest in pairs}
    missing = {name: old for name, old in digests.items() if old not in contents}
    for name, digest in pairs:
        if name in missing:
            check_unchanged(name, missing[name], digest, owner=owner)
    return missing


def check_all_recorded(
    digests: Mapping[str, str], plugins: Sequence[Path], *, owner: str
) -> None:
    """Checks that the digests of all plugins were recorded.

    Raises:
        InputFileError: if the digest of a plugin was not recorded.
    """
    for path in plugins:
        if sha256(path) not in digests.values():
            raise InputFileError(
                f"The {owner} began without `{path.name}`; leave out this plugin."
            )
