"""Names of version 0.2 still work, with a warning that gives the new name."""

import inspect
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import pytest

import meanfield
from meanfield._renamed import KEYWORDS, MEMBERS, RENAMED
from meanfield.cli import app
from meanfield.cli.options._renamed_options import RENAMED_OPTIONS, rename_options
from meanfield.endings import Status
from meanfield.flows import flow
from meanfield.measures import AbstractReader, Gaussian, Points
from meanfield.spec import MeasureInfo
from meanfield.theorems import Counterexample
from meanfield.training import Annealing, Recipe

NAMES = [(module, *pair) for module, names in RENAMED.items() for pair in names.items()]


@pytest.mark.parametrize(("module", "old", "new"), NAMES)
def test_an_old_name_gives_the_new_object_and_a_warning(
    module: str, old: str, new: str
):
    package = import_module(module)
    expected = getattr(package, new)
    with pytest.warns(DeprecationWarning, match=rf"`{module}.{old}` is called `{new}`"):
        assert getattr(package, old) is expected


def test_the_warning_points_at_the_code_that_asks(tmp_path: Path):
    """In a separate process: type checks of the tests add frames here."""
    script = tmp_path / "script.py"
    script.write_text(
        "from meanfield.errors import ProcessLost\n\nfrom meanfield import Moving\n"
    )
    process = subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "script.py:1: DeprecationWarning: `meanfield.errors.Pro" in process.stderr
    assert "script.py:3: DeprecationWarning: `meanfield.Moving`" in process.stderr


@pytest.mark.parametrize("module", ["meanfield", "meanfield.flows", "meanfield.errors"])
def test_an_unknown_name_raises(module: str):
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute"):
        _ = import_module(module).nothing_of_the_kind


def test_no_text_of_the_package_advises_an_old_name():
    root = Path(meanfield.__file__).parent
    old_names = [f"{module.rpartition('.')[2]}.{old}" for module, old, _ in NAMES]
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, old_names))})(?!\w)")
    found = {
        (path.name, match)
        for path in root.rglob("*.py")
        for match in pattern.findall(path.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize("path", MEMBERS)
def test_the_new_members_of_a_class_exist(path: str):
    module, _, name = path.rpartition(".")
    cls = getattr(import_module(module), name)
    fields = getattr(cls, "__dataclass_fields__", {})
    annotations = {
        a for base in cls.__mro__ for a in vars(base).get("__annotations__", ())
    }
    for old, new in MEMBERS[path].items():
        assert hasattr(cls, new) or new in fields or new in annotations
        assert type(vars(cls)[old]).__name__ == "_OldMember"


OLD_READER = """
class Name(AbstractReader[str]):
    def of_points(self, mu):
        return f"{mu.tokens.n} tokens"

    def of_gaussian(self, mu):
        return "a Gaussian"
"""


def test_a_subclass_may_define_an_old_member():
    space: dict[str, Any] = {"AbstractReader": AbstractReader}
    with pytest.warns(DeprecationWarning, match="is called `read_"):
        exec(OLD_READER, space)
    name = space["Name"]()
    assert name(Points.uniform([[0.0], [1.0]])) == "2 tokens"
    assert name(Gaussian(jnp.zeros(1), jnp.eye(1))) == "a Gaussian"


def test_an_old_member_gives_the_new_one():
    mu: Any = Points.uniform([[0.0], [1.0]])
    with pytest.warns(DeprecationWarning, match="`Points.at` is called `replace_coor"):
        image = mu.at(2 * mu.coordinates)
    np.testing.assert_array_equal(image.tokens.x, [[0.0], [2.0]])
    status: Any = Status
    with pytest.warns(DeprecationWarning, match="`Status.named` is called `from_na"):
        assert status.named("finished") is Status.FINISHED


@pytest.mark.parametrize("path", KEYWORDS)
def test_the_new_keywords_of_a_function_exist(path: str):
    module, _, name = path.partition(":")
    function: Any = import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    parameters = inspect.signature(function).parameters
    assert set(KEYWORDS[path].values()) <= parameters.keys()
    assert not KEYWORDS[path].keys() & parameters.keys()


def test_an_old_keyword_sets_the_new_one():
    kind: Any = MeasureInfo
    with pytest.warns(DeprecationWarning, match="`what=` is called `description=`"):
        assert kind(what="a point").description == "a point"
    pair: Any = Counterexample
    with pytest.warns(DeprecationWarning, match="`printed=` is called `misprint=`"):
        assert pair(printed=(), correction=()) == Counterexample((), ())


def test_an_old_keyword_beside_its_new_one_raises():
    kind: Any = MeasureInfo
    with (
        pytest.warns(DeprecationWarning, match="`what=`"),
        pytest.raises(TypeError, match="give only `description`"),
    ):
        kind(what="a point", description="another")


def test_a_function_with_old_keywords_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(flow)) is flow


COMMANDS = [
    (command, names)
    for commands, names in RENAMED_OPTIONS.items()
    for command in commands.split(", ")
]


@pytest.mark.parametrize(("command", "names"), COMMANDS)
def test_the_new_options_of_a_command_exist(command: str, names: dict[str, str]):
    node: Any = app
    for word in command.split():
        node = node[word]
    has_options = node.default_command is not None
    options = node.assemble_argument_collection() if has_options else ()
    known = {*node, *(name for option in options for name in option.names)}
    assert set(names.values()) <= known
    assert not names.keys() & known


def test_an_old_option_is_replaced_with_a_note(capsys: pytest.CaptureFixture[str]):
    line = ["train", "start", "task", "--drops=3,4", "--rehearsal", "--", "--rate"]
    assert rename_options(line)[3:] == [
        "--milestones=3,4",
        "--validation-split",
        *line[5:],
    ]
    assert capsys.readouterr().err.splitlines() == [
        "`--drops` is called `--milestones` since version 0.3.",
        "`--rehearsal` is called `--validation-split` since version 0.3.",
    ]
    other = ["plot", "train", "start", "--drops"]
    assert rename_options(other) == other
    assert rename_options([]) == []
    assert capsys.readouterr().err == ""


def test_an_old_command_is_replaced_before_its_options():
    assert rename_options(["train", "examine", "examine"])[1:] == [
        "evaluate",
        "examine",
    ]


def test_an_old_name_of_a_field_is_a_keyword_of_the_constructor():
    with pytest.warns(DeprecationWarning, match="`rate=` is called `learning_rate=`"):
        recipe = cast(Any, Recipe)(epochs=1, batch_size=2, rate=0.5)
    assert recipe.learning_rate == 0.5
    with pytest.warns(DeprecationWarning, match="`after=` is called `delay=`"):
        assert cast(Any, Annealing)("temperature", 0.8, after=3).delay == 3
