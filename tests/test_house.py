"""What the house has come down to, it does not go up from; and the counts can count."""

from pathlib import Path

import pytest
from house import ROOT, Row, asked, counted, long
from house_rows import questions, sizes, statements, words

MOST = {
    "questions for the class of a measure": 8,
    "questions for the name of a measure": 24,
    "lists of three spec keys or more": 10,
    "lists of endings": 1,
    "NumPy Sinkhorn loops": 6,
    "NamedTuples of parameters, law, tokens": 17,
    "folders of more than 15 files": 4,
    "modules of more than 300 lines": 5,
    "functions of more than 30 lines of code": 8,
}
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


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small house, with one of everything that is counted."""
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
    for name, text in files.items():
        file = tmp_path / "meanfield" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    loops = statements.alternations(ROOT, "meanfield/theorems")
    tuples = statements.tuples(ROOT)
    known = [*asked(ROOT), *long(ROOT), counted("NumPy Sinkhorn loops", 1, loops)]
    known.append(counted("NamedTuples of parameters, law, tokens", 4, tuples))
    return {row.title: row for row in known}


@pytest.mark.parametrize("title", MOST)
def test_the_house_grows_no_worse(rows: dict[str, Row], title: str):
    row = rows[title]
    assert row.number <= MOST[title], "\n".join(row.places)


def test_questions_are_counted_outside_measures(tree: Path):
    by_class, by_name = questions.by_class(tree), questions.by_name(tree)
    assert [place.split(":")[1] for place in by_class] == ["2", "2", "5"]
    assert [place.split(":")[1] for place in by_name] == ["7", "7"]
    assert len(questions.above_flows(by_class)) == 3


def test_lists_of_keys_are_told_from_rows_specs_and_pairs(tree: Path):
    assert questions.keys(tree) == {"A", "Q", "t"}
    places = questions.lists_of_keys(tree)
    assert [place.split(":")[1] for place in places] == ["2", "3"]


def test_lists_of_endings_are_the_class_tuples_and_tables(tree: Path):
    assert len(questions.lists_of_endings(tree)) == 3


def test_alternations_are_told_from_other_loops(tree: Path):
    places = statements.alternations(tree, "meanfield")
    assert [place.split(":")[1] for place in places] == ["2", "5", "8"]
    assert [p.split(": ")[1] for p in statements.tuples(tree)] == ["Start"]


def test_lines_of_code_leave_out_blanks_imports_and_docstrings(tree: Path):
    (tree / "other").mkdir()
    text = f'"""Title."""\n\nimport a\n# Why.\n{LONG}'
    (tree / "other" / "file.py").write_text(text, encoding="utf-8")
    assert sizes.lines(tree, "other") == sizes.Lines(code=5, worded=3)
    assert not sizes.functions(tree, "other", most=4)
    assert sizes.functions(tree, "other", most=3)
    assert len(sizes.modules(tree, "other", most=12)) == 1
    assert not sizes.modules(tree, "other", most=13)
    assert sizes.folders(tree, most=1) == ["meanfield/spec: 2", "meanfield: 2"]


def test_words_are_counted_where_they_are_bound(tree: Path):
    assert words.variables(tree, "meanfield/words") == {"found": 1, "own": 1}
    assert words.regular(tree, "meanfield/words") == {"moved": 1}
