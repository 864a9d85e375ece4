"""Tables of numbers from files: what is read, and what is rejected in one line."""

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest

from meanfield import runs
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.runs.setup._files import read_array
from meanfield.spec import parse


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
        ('"1.5","2"\n', [[1.5, 2]]),
        ('"x, m","y, m"\n1,2\n', [[1, 2]]),
        # Whole numbers in a square are a matrix, whatever they begin with.
        ("0,1\n-1,0\n", [[0, 1], [-1, 0]]),
        ("0,1\n-1,-0.5\n", [[0, 1], [-1, -0.5]]),
        ("1,2\n2,1\n", [[1, 2], [2, 1]]),
        ("0,1\n", [[0, 1]]),
        ("0\n", [[0]]),
        # Written with points they are numbers, not counts.
        ("0.0,1\n0.5,0.25\n1.5,2.5\n", [[0, 1], [0.5, 0.25], [1.5, 2.5]]),
        ("0.0,0.5\n1.0,0.25\n", [[0, 0.5], [1, 0.25]]),
        ("x,y\n0,0.5\n1,0.25\n2,1\n", [[0, 0.5], [1, 0.25], [2, 1]]),
    ],
)
def test_a_table_is_read(text: str, rows: list, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8", newline="")
    np.testing.assert_array_equal(read_array(path), np.array(rows, float))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1.0,2.O\n3,4\n", "line 1, column 2 holds `2.O`, not a number"),
        ("x,y\n\n3,4\n5,six\n", "line 4, column 2 holds `six`"),
        ("1;2\n3;4\n", "column 1 holds `1;2`.*cells by commas"),
        ('"1,5";"2,5"\n', 'line 1, column 1 holds `1,5;"2`.*cells by commas'),
        ("1 2\n3 4\n", "line 1, column 1 holds `1 2`, not a number"),
        ("1,2\n3\n", "line 2 has 1 cells, but earlier lines have 2"),
        ("x,y,weight\n1,2,3\n", "column `weight` would be read as a coordinate"),
        ("x,y\n", "names of columns, but no numbers"),
        ("1\t2\n3\t4\n", "separate cells by commas"),
        ("x;y\n1;2\n", "line 2, column 1 holds `1;2`.*by commas"),
        # pandas: to_csv(index=False), a Series, an index that was reset or read back,
        # to_csv(), to_csv(header=False).
        ("0,1\n0.5,1.5\n2.5,0.25\n", "first line `0,1` looks like.*`header=False`"),
        ("0,1\n1,0\n0,1\n", "first line `0,1` looks like"),
        ("0\n0.5\n0.25\n", "first line `0` looks like"),
        ("index,x,y\n0,1.5,2.5\n", "column `index` would be read as a coordinate.*in"),
        ("Unnamed: 0,x\n7,1.5\n", "column `Unnamed: 0` would be read.*index=False"),
        (",0,1\n0,0.5,1.5\n", "first column has no name, so it seems to name rows"),
        ("0,0.5,1.5\n1,2.5,0.5\n", "first column seems to count rows; leave it out"),
        # R: write.csv, write.table(sep = ",") with and without names.
        ('"","x","y"\n"1",0.5,1.5\n', "no name, so it seems to name rows.*row.names"),
        ("x,y\n1,0.5,1.5\n2,2.5,0.5\n", "line 2 has 3 cells, but earlier lines have 2"),
        ('"1",0.5,1.5\n"2",2.5,0.5\n', "first column seems to count rows"),
        # A decimal comma, and the frames that `export` writes.
        ("x\n1,5\n2,5\n", "line 2 has 2 cells, but earlier lines have 1"),
        ("time,token,x0\n0.0,0,1.5\n", "column `time` would be read as a coordinate"),
        ("", "it is empty"),
        ("1,2\n3,nan\n", r"entry at \[1, 1\] \(counted from 0\) is not finite"),
    ],
)
def test_a_malformed_table_is_rejected_with_its_line(
    text: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputFileError, match=words) as error_info:
        read_array(path)
    assert "\n" not in str(error_info.value)


def test_a_table_in_utf_16_is_rejected_by_name(tmp_path: Path) -> None:
    """`>` in Windows PowerShell writes UTF-16."""
    (tmp_path / "t.csv").write_text("1,2\n", encoding="utf-16")
    with pytest.raises(InputFileError, match=r"t.csv` is not UTF-8 text; save the"):
        read_array(tmp_path / "t.csv")


def test_a_table_exported_from_a_run_is_rejected_as_a_cloud(tmp_path: Path) -> None:
    """Rejects each column name that `export` and `pandas` give to other columns."""
    for name in ("weight", "mass", "run", "layer", "position", "id", "level_0"):
        (tmp_path / "t.csv").write_text(f"x,{name}\n1.5,0.5\n")
        with pytest.raises(InputFileError, match=f"`{name}` would be read"):
            read_array(tmp_path / "t.csv")
        (tmp_path / "t.csv").write_text(f"{name}\n0.5\n")
        assert read_array(tmp_path / "t.csv") == 0.5


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("cloud.npz", 'numpy.save("cloud.npy", numpy.load("cloud.npz")["states"])'),
        ("cloud.txt", 'numpy.save("cloud.npy", numpy.loadtxt("cloud.txt"))'),
        ("absent.npz", 'numpy.load("absent.npz")["NAME"]'),
        ("broken.npz", 'numpy.load("broken.npz")["NAME"]'),
    ],
)
def test_other_files_of_numpy_are_rejected_with_the_way_to_convert_them(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "cloud.npz", states=x, weights=x[:, 0])
    np.savetxt(tmp_path / "cloud.txt", x)
    (tmp_path / "broken.npz").write_bytes(b"nothing")
    with pytest.raises(InputFileError, match=re.escape(command)):
        read_array(tmp_path / name)
    if name.startswith("cloud"):  # the advice works
        monkeypatch.chdir(tmp_path)
        exec(command, {"numpy": np})
        np.testing.assert_array_equal(read_array("cloud.npy"), x)


def test_a_transposed_cloud_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("wide.npy", np.arange(6.0).reshape(2, 3))
    np.save("long.npy", np.arange(6.0).reshape(3, 2))
    keys = {"A": -1.0, "t": 0.01, "frames": 2}
    notes = {
        name: runs.execute(parse({**keys, "init": f"@{name}"})).note
        for name in ("wide.npy", "long.npy")
    }
    assert (
        "2 tokens in dimension 3: each row of wide.npy is a token" in notes["wide.npy"]
    )
    assert notes["long.npy"] == ""
    with pytest.raises(InvalidInputError, match=r"row for each token: transpose it"):
        runs.execute(parse({**keys, "init": "@wide.npy", "d": 2}))
    np.save("square.npy", np.eye(2))
    with pytest.raises(InvalidInputError, match=r"init: 2\); make them agree"):
        runs.execute(parse({**keys, "init": "@square.npy", "d": 3}))


def test_a_run_is_resumed_without_its_cloud(tmp_path: Path) -> None:
    np.save(tmp_path / "cloud.npy", np.arange(6.0).reshape(3, 2))
    keys = {"A": -1.0, "t": 0.2, "frames": 5, "segment": 1}
    spec = parse({**keys, "init": f"@{tmp_path / 'cloud.npy'}"})

    def stop(progress: runs.Progress) -> None:
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        runs.execute(spec, out=tmp_path / "run", report=stop)
    (tmp_path / "cloud.npy").unlink()
    assert runs.resume(tmp_path / "run").outcome.name == "finished"
