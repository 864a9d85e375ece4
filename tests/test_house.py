"""No count of the table grows, each is on its page, and the counts are right."""

from pathlib import Path

import pytest
from house import PAGE, ROOT, Row, lower_maxima, maxima, table
from house_rows import (
    copies,
    imports,
    pieces,
    questions,
    sizes,
    statements,
    walk,
    words,
)

MAXIMA = maxima(PAGE.read_text(encoding="utf-8"))
SPEC = "class RunSpec(Times):\n    A: float\n    Q: float\n"
TIMES = "class Times(Base):\n    t: float\n"
ENDINGS = "class Status(Enum):\n    STEADY = 1\n    BLOW_UP = 2\n    ESCAPE = 3\n"
ASKING = """
if isinstance(mu, measures.Grid | Points) or issubclass(kind, Gaussian):
    pass
match mu:
    case Quadrature():
        pass
asks = spec.measure == "grid" or kind(run) in ("points", "gaussian")
law = spec.init == "gaussian"
isinstance(mu, AbstractMeasure)
"""
LISTING = """
matrices = ("A", "Q", "t")
table = {"A": 1, "Q": ("A", "Q", "t"), "t": 2}
row = Key(replaces=("A", "Q", "t"))
other = {**spec, "A": 1, "Q": 2, "t": 3}
pair, mixed = ("A", "Q"), ("A", "Q", "x")
final = (Status.STEADY, Status.BLOW_UP, Status.ESCAPE)
colours = {"steady": "k", "blow-up": "r", "escape": "b"}
"""
LOOPS = """
for _ in range(9):
    rows = 1 / (kernel @ columns)
    columns = 1 / (kernel.T @ rows)
while True:
    f = -logsumexp(scores + g, axis=1)
    g = -logsumexp(scores + f, axis=0)
for _ in range(9):
    plan = plan / plan.sum(axis=0)
for row in rows:
    mean = row @ keys / row.sum()
for _ in range(9):
    x = x + h * v
class Start(NamedTuple):
    mean: float
    factor: float
class Curve(NamedTuple):
    radius: float
    x: float
"""
LONG = (
    'def short():\n    """One.\n\n    Two.\n    """\n\n    return (\n        1\n    )\n'
)
WORDS = "found, matrix = each\nfor own in rows:\n    moved, seed = own\n"
WORDS += "def told(): ...\ndef a_told(): ...\nclass A:\n    def shed(self): ...\n"
WORDS += "def of_tokens(): ...\ndef from_tokens(): ...\n"
SMALL = """
def _plain(x):
    \"\"\"Title.\"\"\"

    return x
def _twice(x):
    return x
def _passed(x):
    return x
@cached
def _wrapped(x):
    return x
def _long(x):
    a = 1
    b = 2
    c = 3
    return a
half: Callable = lambda x: x / 2
y = _plain(1) + _twice(1) + _twice(2) + _wrapped(2) + _long(1)
z = map(_passed, rows), map(lambda x: x, rows)
"""
TAKING = """
def tokens(spec, n):
    return spec.d + spec.t + n.shape
def cells(run: spec.RunSpec | None, other: Spec):
    return run.d + other.t
"""
CYCLE = {
    "cli/__init__.py": "from .commands import show\nimport meanfield.spec._model\n",
    "cli/commands/show.py": "def run():\n    from meanfield.cli import options\n",
    "cli/options.py": "from .. import endings\nimport jax\n",
    "runs/_run.py": "from .building._build import f\nfrom meanfield import flows\n",
    "runs/building/_build.py": "from .._run import g\nfrom . import _tables\n",
    "runs/building/_tables.py": "",
}
COPIES = """
class RunStore: ...
class _Store: ...
class SweepFolder(Base): ...
class StoredFrames: ...
"""
SCRIPT = """
// Why.
/** What
 *  it does. */
const a = 1;  // a
/* b */

const c = `x`;
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small checkout, with one example of each count."""
    files = {
        "spec/_model.py": SPEC,
        "spec/_times.py": TIMES,
        "endings.py": ENDINGS,
        "runs/asking.py": ASKING,
        "measures/asking.py": ASKING,
        "flows/listing.py": LISTING,
        "theorems/loops.py": LOOPS,
        "long.py": LONG,
        "words/file.py": WORDS,
    }
    plant(tmp_path, files)
    return tmp_path


def plant(root: Path, files: dict[str, str]) -> None:
    """Writes the files of a small package."""
    for name, text in files.items():
        file = root / "meanfield" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return {row.title: row for row in table(ROOT)}


def test_every_row_is_on_the_page(rows: dict[str, Row]):
    assert list(rows) == list(MAXIMA)


@pytest.mark.parametrize("title", MAXIMA)
def test_no_number_of_the_table_grows(rows: dict[str, Row], title: str):
    number, maximum = rows[title].number, MAXIMA[title]
    assert number <= maximum, "\n".join(rows[title].places)
    assert number >= 0.99 * maximum, "lower it: `python tests/house.py --write`"


def test_maxima_are_read_and_only_lowered():
    page = "| a | 1 → 2 | 3 | 1 400 | – |\n| b | – | 5 | 6 | 7 |\ntext | 1\n"
    assert maxima(page) == {"a": 1400, "b": 6}
    rows = [Row("a", 1200, None), Row("b", 8, None)]
    assert lower_maxima(page, rows) == page.replace("1 400", "1 200")


def test_questions_are_counted_outside_measures(tree: Path):
    by_class, by_name = (
        questions.questions_by_class(tree),
        questions.questions_by_name(tree),
    )
    assert [place.split(":")[1] for place in by_class] == ["2", "2", "5"]
    assert [place.split(":")[1] for place in by_name] == ["7", "7"]
    assert len(questions.questions_above_flows(by_class)) == 3


def test_lists_of_keys_are_counted_without_rows_specs_and_pairs(tree: Path):
    assert questions.keys(tree) == {"A", "Q", "t"}
    places = questions.lists_of_keys(tree)
    assert [place.split(":")[1] for place in places] == ["2", "3"]


def test_lists_of_endings_are_the_class_tuples_and_tables(tree: Path):
    assert len(questions.lists_of_endings(tree)) == 3


def test_sinkhorn_loops_are_counted_and_other_loops_are_not(tree: Path):
    places = statements.alternations(tree, "meanfield")
    assert [place.split(":")[1] for place in places] == ["2", "5", "8"]
    assert [p.split(": ")[1] for p in statements.tuples(tree)] == ["Start"]


def test_lines_of_code_leave_out_blanks_comments_and_docstrings(tree: Path):
    (tree / "other").mkdir()
    text = f'"""Title."""\n\nimport a\n# Why.\n{LONG}'
    (tree / "other" / "file.py").write_text(text, encoding="utf-8")
    assert sizes.lines(tree, "other") == 5
    assert not sizes.functions(tree, "other", limit=4)
    assert sizes.functions(tree, "other", limit=3)
    assert len(sizes.modules(tree, "other", limit=12)) == 1
    assert not sizes.modules(tree, "other", limit=13)
    assert sizes.folders(tree, limit=1) == ["meanfield/spec: 2", "meanfield: 2"]
    (tree / "meanfield" / "page.js").write_text(SCRIPT, encoding="utf-8")
    assert sizes.javascript(tree) == 2


def test_names_are_counted_where_they_are_bound(tree: Path):
    names = {"found": 1, "own": 1, "moved": 1}
    assert words.variable_names(tree, "meanfield/words") == names
    assert words.function_names(tree, "meanfield/words") == {"told": 1}
    assert words.leading_prepositions(tree, "meanfield/words") == {"of": 1}
    assert words.replaced_words(tree, "meanfield/words") == {"told": 2}
    (tree / "page.md").write_text("Told twice, `told`.\n\n| told | said |\n")
    assert words.replaced_words(tree, pages=["page.md"]) == {"told": 1}


def test_small_modules_and_helpers_are_counted(tmp_path: Path):
    plant(tmp_path, {"small.py": SMALL, "__init__.py": "", "forty.py": "x = 1\n" * 40})
    assert pieces.files(tmp_path) == [f"meanfield/small.py: {SMALL.count(chr(10))}"]
    assert [place.split(": ")[1] for place in pieces.helpers(tmp_path)] == ["_plain"]
    assert len(pieces.lambdas(tmp_path)) == 1


def test_functions_taking_a_whole_spec_are_counted(tmp_path: Path):
    plant(tmp_path, {"taking.py": TAKING})
    takers = pieces.takers(tmp_path)
    assert [place.split(": ")[1] for place in takers] == ["tokens", "cells"]
    assert len(pieces.reads(tmp_path)) == 3


def test_cycles_and_imports_from_above_are_found_in_every_spelling(tree: Path):
    plant(tree, CYCLE)
    assert imports.cyclic(tree) == [
        "meanfield/runs/_run.py",
        "meanfield/runs/building/_build.py",
    ]
    assert imports.upward(tree) == [
        "meanfield/cli/commands/show.py: cli/options.py",
        "meanfield/runs/building/_build.py: runs/_run.py",
    ]


def test_stores_cones_and_packages_are_counted_by_name(tmp_path: Path):
    names = ("a/cone.js", "a/_cone_page.py", "b/cones.py", "c/cone.css")
    plant(tmp_path, {"stores.py": COPIES, **dict.fromkeys(names, "")})
    project = '[project]\ndependencies = ["a>=1", "b"]\n'
    (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    assert len(copies.stores(tmp_path)) == 2
    assert copies.cones(tmp_path) == ["meanfield/a"]
    assert len(copies.dependencies(tmp_path)) == 2


def test_a_call_path_counts_returns_to_folders():
    assert walk.returns(["a", "a", "b", "a", "c", "c", "b"]) == ["a", "b"]
