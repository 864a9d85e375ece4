"""The doubts about flows on grids are bars: they cover what is known otherwise."""

import numpy as np
import pytest
from doubt_coverage import FAMILIES, measured
from doubt_problems import Family

SEEN = 1e-4  # an error worth comparing bars with: below, all is well


def test_bars_cover_flows_that_are_known_otherwise() -> None:
    """Densities of every shape under softmax, on an odd number of cells."""
    kind = Family("softmax", "affine", 201)
    rows = [row for i in range(12) if (row := measured(kind, i)) is not None]
    assert len(rows) >= 8
    assert all(row.is_covered for row in rows), rows
    assert sum(row.is_resolved for row in rows) >= len(rows) / 2


@pytest.mark.slow
def test_bars_cover_99_of_100_flows_of_every_kind() -> None:
    """At least 300, in every box, with and without noise: docs/design.md."""
    rows = [
        row
        for i, kind in enumerate(FAMILIES)
        for k in range(kind.count)
        if (row := measured(kind, i, k)) is not None
    ]
    assert len(rows) >= 300
    missed = [row for row in rows if not row.is_covered]
    assert len(missed) <= 0.01 * len(rows), missed
    resolved = [row for row in rows if row.is_resolved]
    assert max(max(row.errors) for row in resolved) <= 0.1
    ratios = [row.doubts[0] / row.errors[0] for row in rows if row.errors[0] > SEEN]
    assert np.median(ratios) < 30
