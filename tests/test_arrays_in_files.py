"""Tables of numbers from outside: what is read, and what is refused in one line."""

from pathlib import Path

import numpy as np
import pytest

from meanfield.errors import InputFileError
from meanfield.runs.building._arrays import read_array


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("x,y\n1,2\n3,4\n", [[1, 2], [3, 4]]),
        ('"x","y"\r\n1,2\r\n', [[1, 2]]),
        ("\ufeffx,y\n1,2\n", [[1, 2]]),
        ("# x, y\n1,2\n", [[1, 2]]),
        ("# 1, 2\n\n3, 4 # the last\n", [[3, 4]]),
        ("weight\n0.5\n1.5\n", [[0.5], [1.5]]),
        ("1e3\n-.5\n", [[1000], [-0.5]]),
    ],
)
def test_a_table_is_read(text: str, rows: list, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8", newline="")
    np.testing.assert_array_equal(read_array(path), np.array(rows, float))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1.0,2.O\n3,4\n", "line 1, column 2 is `2.O`, which is no number"),
        ("x,y\n\n3,4\n5,six\n", "line 4, column 2 is `six`"),
        ("1;2\n3;4\n", "column 1 is `1;2`.*parted by commas"),
        ('"1,5";"2,5"\n', 'line 1, column 1 is `"1`'),
        ("1 2\n3 4\n", "line 1, column 1 is `1 2`, which is no number"),
        ("1,2\n3\n", "line 2 has 1 cells, those before it have 2"),
        ("x,y,weight\n1,2,3\n", "column `weight` would be read as a coordinate"),
        ("x,y\n", "names of columns and no numbers"),
        ("", "it is empty"),
        ("1,2\n3,nan\n", r"entry at \[1, 1\], counted from 0, that is not finite"),
    ],
)
def test_an_odd_table_is_refused_where_it_is_odd(
    text: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputFileError, match=words):
        read_array(path)
