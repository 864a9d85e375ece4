"""Axes of sweeps, and chunks of cells."""

import json

import numpy as np
import pytest
from pydantic import TypeAdapter

from meanfield.errors import InvalidInputError
from meanfield.runs.sweeps._cells import SweepCells
from meanfield.spec import Axis, parse, parse_axes, replace_values

BASE = {"measure": "gaussian", "d": 1, "V": 1.0}


@pytest.mark.parametrize(
    ("text", "names", "values"),
    [
        ("A=-2:2:5", ["A"], [[-2, -1, 0, 1, 2]]),
        ("epsilon=0.1:10:3:log", ["epsilon"], [[0.1, 1, 10]]),
        ("A=1:0:2,cov=1|2", ["A", "cov"], [[1, 0], [1, 2]]),
        (
            "attention=softmax|l2, seed=0|1",
            ["attention", "seed"],
            [["softmax", "l2"], [0, 1]],
        ),
        ("A=[[1,0],[0,2]]|normal:2|3", ["A"], [[[[1, 0], [0, 2]], "normal:2", 3]]),
        ("A[0,1]=-1:1:2,A[1,0]=0|1", ["A[0,1]", "A[1,0]"], [[-1, 1], [0, 1]]),
        ("half-width=1|2,seed=0|1", ["half_width", "seed"], [[1, 2], [0, 1]]),
        ("mask=null|causal", ["mask"], [[None, "causal"]]),
        ("options.tau=1|2,drift.b=0|1", ["options.tau", "drift.b"], [[1, 2], [0, 1]]),
        ("drift.M[0,1]=0|1,A=1|2", ["drift.M[0,1]", "A"], [[0, 1], [1, 2]]),
    ],
)
def test_axes_are_parsed(text: str, names: list[str], values: list[list]) -> None:
    axes = parse_axes(text)
    assert [axis.name for axis in axes] == names
    for axis, expected in zip(axes, values, strict=True):
        if axis.is_numeric:
            np.testing.assert_allclose(axis.values, expected, rtol=1e-15)
        else:
            assert list(axis.values) == expected
        record = json.loads(json.dumps(axis.as_json()))
        assert TypeAdapter(Axis).validate_python(record) == axis


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("B=1:2:3", "no key `B`"),
        ("epsilonn=1:2:3", "did you mean `epsilon`"),
        ("A", "is not an axis; write KEY="),
        ("A=1", "is not an axis"),
        ("A=1:2", "is not an axis"),
        ("A=1:2:3:linear", "is not an axis"),
        ("A=x:2:3", "`x` is not a finite number"),
        ("A=nan:2:3", "`nan` is not a finite number"),
        ("A=1:2:0", "from 2 to"),
        ("A=1:1:3", "the same"),
        ("A=-1:1:3:log", "> 0"),
        ("A=|1", "empty value"),
        ("A=1|2|1", "the value 1 twice"),
        ("A=1:2:3,A=3:4:5", "`A` is given twice"),
        ("A=1|2,A[0,0]=1|2", "`A` is given twice"),
        ("A[0,0]=1|2,A=1|2", "`A` is given twice"),
        ("drift.M[0,0]=1|2,drift.M=1|2", "`drift` is given twice"),
        ("drift=1|2,drift.M[0,0]=1|2", "`drift` is given twice"),
        ("draws=1|2", "sweep over `seed`"),
        ("starts=grid:2|grid:3", "`starts` cannot be an axis"),
        ("layers=1|2", "it is a table"),
        ("epsilon[0,1]=1|2", "not a matrix"),
    ],
)
def test_bad_axes_are_rejected_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        parse_axes(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_axes_without_options_are_stored_in_the_old_format() -> None:
    """So that existing sweeps resume with the same command."""
    (axis,) = parse_axes("A=1:2:2")
    assert set(axis.as_json()) == {"key", "values", "scale", "entry"}
    (axis,) = parse_axes("options.tau=1|2")
    assert axis.as_json()["option"] == "tau"


def test_a_single_entry_of_a_drift_can_be_swept() -> None:
    (axis,) = parse_axes("drift.M[0,1]=-1|1")
    spec = parse({"drift": {"M": [[1, 2], [3, 4]], "b": [1, 0]}})
    assert replace_values(spec, [(axis, 1)]).drift == {
        "M": [[1, 1], [3, 4]],
        "b": [1, 0],
    }
    with pytest.raises(InvalidInputError, match=r"give `drift.M` as a list of rows"):
        replace_values(parse({"drift": {"b": 1}}), [(axis, 1)])


def test_a_single_entry_of_a_matrix_can_be_swept() -> None:
    (axis,) = parse_axes("A[0,1]=-1|1")
    spec = parse({"A": [[1, 2], [3, 4]]})
    assert replace_values(spec, [(axis, 1)]).A == [[1, 1], [3, 4]]
    assert spec.A == [[1, 2], [3, 4]]
    for A in (1.0, [1.0, 2.0], [[1.0]]):
        with pytest.raises(InvalidInputError, match="rows large enough for this entry"):
            replace_values(parse({"A": A}), [(axis, 1)])


def test_chunks_cover_all_cells_and_mix_no_programs() -> None:
    axes = parse_axes("A=0:1:5,attention=softmax|l2,cov=1:2:3,t=1|2")
    cells = SweepCells(parse(BASE), axes)
    chunks = cells.chunks(4)
    assert len(chunks) == 16  # 2 attentions × 2 times × ⌈15 / 4⌉
    assert {len(chunk) for chunk in chunks} == {4}
    assert {index for chunk in chunks for index in chunk} == set(range(cells.count))
    for chunk in chunks:
        specs = [cells.run_spec(index) for index in chunk]
        assert len({(spec.attention, spec.t) for spec in specs}) == 1
    assert {cells.run_spec(i).attention for i in cells.program_cells} == {
        "softmax",
        "l2",
    }
    assert len(cells.program_cells) == 2
    assert [len(cells.cells_along([axis])) for axis in axes] == [5, 2, 3, 2]
