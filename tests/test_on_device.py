"""The script that measures one accelerator, run without one."""

import json
from pathlib import Path

import pytest

from benchmarks import _measure, on_device
from benchmarks._page import page


@pytest.mark.slow
def test_the_script_for_a_device_measures_every_row_without_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """At tiny sizes, with interpreted kernels, so that it cannot fail for a typo."""
    monkeypatch.setattr(_measure, "MIN_REPEATS", 1)
    monkeypatch.setattr(_measure, "MIN_SECONDS", 0.0)
    out = on_device.main(["--quick", "--out", str(tmp_path / "rows.json")])
    findings = json.loads(out.read_text())
    rows = [row for row in findings["rows"] if row["package"] != "torch"]
    assert [row["reason"] for row in rows if row["status"] != "measured"] == []
    assert max(row.get("error", 0) for row in rows) < 1e-5  # the tolerance of flows
    assert "on_device" in page([findings])


def test_rows_for_which_no_time_is_left_say_so(tmp_path: Path):
    arguments = ["--quick", "--minutes", "0", "--out", str(tmp_path / "rows.json")]
    rows = json.loads(on_device.main(arguments).read_text())["rows"]
    assert {row["reason"] for row in rows} == {"no time left"}
