"""Every public name of the package: where it is found, where it is defined.

Also what the tests count: names whose docstring has no example.
"""

import ast
import importlib
import inspect
from pathlib import Path
from typing import NamedTuple

import meanfield

# In the order in which a reader meets them; the modules that others rely on.
MODULES = (
    "meanfield",
    "meanfield.attention",
    "meanfield.scores",
    "meanfield.dynamics",
    "meanfield.measures",
    "meanfield.measures.clouds.named",
    "meanfield.measures.clouds.sphere",
    "meanfield.measures.sampling",
    "meanfield.measures.laws",
    "meanfield.measures.families",
    "meanfield.measures.edges",
    "meanfield.flows",
    "meanfield.energies",
    "meanfield.distances",
    "meanfield.spaces",
    "meanfield.spherical",
    "meanfield.sums",
    "meanfield.devices",
    "meanfield.models",
    "meanfield.runs",
    "meanfield.spec",
    "meanfield.storage",
    "meanfield.plotting",
    "meanfield.theorems",
    "meanfield.training",
    "meanfield.reproduce",
    "meanfield.tokens",
    "meanfield.fields",
    "meanfield.linalg",
    "meanfield.fixed_point",
    "meanfield.cells",
    "meanfield.clusters",
    "meanfield.frame_numbers",
    "meanfield.spectrum",
    "meanfield.zones",
    "meanfield.endings",
    "meanfield.errors",
    "meanfield.workers",
)


class Name(NamedTuple):
    """A public name of a module.

    Attributes:
        module: where it is found, `meanfield.flows`.
        name: as it is written there.
        value: what it is.
        home: the module whose page describes it; another if that re-exports it.
    """

    module: str
    name: str
    value: object
    home: str

    @property
    def described(self) -> bool:
        """Whether it has a docstring of its own: functions and classes have."""
        own = str(getattr(self.value, "__module__", "")).startswith("meanfield")
        return own and (inspect.isclass(self.value) or inspect.isroutine(self.value))

    @property
    def lacks_example(self) -> bool:
        """Whether nobody shows how it is used."""
        return self.described and ">>> " not in (inspect.getdoc(self.value) or "")


def public_names() -> list[Name]:
    """All of them, module by module; a name that two modules have comes twice."""
    return [name for module in MODULES for name in _names(module)]


def _names(module: str) -> list[Name]:
    loaded = importlib.import_module(module)
    exported = getattr(loaded, "__all__", None) or _written(Path(loaded.__file__ or ""))
    values = {name: getattr(loaded, name) for name in exported}
    return [Name(module, n, value, _home(module, value)) for n, value in values.items()]


def _home(module: str, value: object) -> str:
    """The longest of the modules that its own name begins with."""
    defined = getattr(value, "__module__", None) or module
    described = inspect.isclass(value) or inspect.isroutine(value)
    homes = [m for m in MODULES if f"{defined}.".startswith(f"{m}.")]
    return max(homes, key=len) if described and homes[1:] else module


def _written(file: Path) -> list[str]:
    """What a module imports `as` itself, or defines without an underscore."""
    names: list[str] = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names += [a.name for a in node.names if a.asname == a.name]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [t.id for t in targets if isinstance(t, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def without_examples() -> list[str]:
    """The names that are described and have no example, each once, at its home."""
    lacking = {(n.home, n.name) for n in public_names() if n.lacks_example}
    return sorted(f"{home}.{name}" for home, name in lacking)


if __name__ == "__main__":
    names = {(n.home, n.name) for n in public_names() if n.described}
    print("\n".join(without_examples()))  # noqa: T201 (a command)
    print(f"{len(without_examples())} of {len(names)} in {meanfield.__name__}")  # noqa: T201
