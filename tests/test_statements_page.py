"""The page of statements: one file, no network, every number of the report."""

import copy
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import statements_report as made
from statements_report import Outline, Record

from meanfield.errors import InvalidInputError, ResourceError
from meanfield.plotting import save_statements_page, statements_page

HOSTILE = "</code><script>alert(1)</script> {{style}} & <b> 'x' \"y\""


def page_of(*statements: Record, **changes: Any) -> str:
    return statements_page(made.report(*statements, **changes))


def counts(page: str) -> list[tuple[int, int]]:
    """The counts on the page, by role."""
    list_html = re.search(r'<ul class="counts">(.*?)</ul>', page, re.DOTALL)
    assert list_html is not None
    actual = re.findall(r"<b[^>]*>(\d+)</b> of (\d+)", list_html[1])
    return [(int(good), int(total)) for good, total in actual]


def test_a_page_makes_no_request() -> None:
    page = statements_page(made.full_report())
    outline = Outline(page)
    for tag, attributes in outline.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not {"src", "srcset", "action"} & set(attributes)
    assert all(link.startswith("#") for link in outline.values("href"))
    code = outline.text("script", "style")
    for word in ("http:", "https:", "//www", "fetch(", "import ", "url(", "XMLHttp"):
        assert word not in code
    assert "http" not in page.replace("http-equiv", "")
    policies = [attrs["content"] for _, attrs in outline.tags if "http-equiv" in attrs]
    assert policies[0] is not None
    assert policies[0].startswith("default-src 'none'")


def test_every_statement_has_one_anchor_and_links_resolve() -> None:
    report = made.full_report()
    outline = Outline(statements_page(report))
    anchors = outline.values("id")
    assert len(anchors) == len(set(anchors))
    for statement in report["statements"]:
        assert {statement["id"], *statement["aliases"]} <= set(anchors)
    links = [link.removeprefix("#") for link in outline.values("href")]
    assert set(links) <= set(anchors)
    entries = [link for link in links if ":" in link]
    assert {statement["id"] for statement in report["statements"]} <= set(entries)


def test_the_markup_is_balanced() -> None:
    page = statements_page(made.full_report())
    for tag in ("article", "section", "table", "div", "svg", "math", "details", "ul"):
        tags = re.findall(rf"<{tag}[\s>]", page)
        assert len(tags) == page.count(f"</{tag}>"), tag


def test_every_role_is_shown_with_its_numbers() -> None:
    page = page_of(made.erratum())
    text = Outline(page).text()
    titles = ("The claim", "The control", "As printed", "As corrected")
    assert all(title in text for title in titles)
    assert "The velocity is taken half as large." in text
    assert 'data-kinds="errata"' in page
    assert "erratum C12" in text
    assert "Counterexample." in text
    assert 'title="0.3771234"' in page
    assert page.count("<math ") >= 6
    assert counts(page) == [(1, 1)] * 4


def test_tables_have_captions_and_heads() -> None:
    report = made.full_report()
    outline = Outline(statements_page(report))
    names = [tag for tag, _ in outline.tags]
    trials = [
        trial for statement in report["statements"] for trial in statement["trials"]
    ]
    checks = [check for trial in trials for check in trial["checks"]]
    measured_trials = [trial for trial in trials if trial["checks"]]
    assert names.count("table") == names.count("caption") == len(measured_trials)
    assert outline.values("scope").count("row") == len(checks)
    headings = [int(name[1]) for name in names if re.fullmatch(r"h[1-6]", name)]
    assert headings.count(1) == 1


def test_text_is_escaped() -> None:
    words = [
        *("source", "claim", "hypotheses", "protocol", "remark", "group"),
        *("control", "printed", "corrected", "counterexample"),
    ]
    hostile: Record = {**made.erratum(), **dict.fromkeys(words, HOSTILE)}
    hostile["errata"] = [HOSTILE]
    for trial in hostile["trials"]:
        trial["error"] = HOSTILE
        for check in trial["checks"]:
            check |= {"label": HOSTILE, "why": HOSTILE}
    outline = Outline(page_of(hostile, size=HOSTILE, dtype=HOSTILE))
    names = [tag for tag, _ in outline.tags]
    assert names.count("script") == 1
    assert names.count("b") == len(counts(page_of(hostile)))
    assert outline.text().count("<script>alert(1)</script> {{style}}") > len(words)


def test_labels_and_witnesses_of_plots_are_escaped() -> None:
    hostile = made.inequality()
    hostile["trials"][0]["checks"][0]["label"] = HOSTILE
    hostile["trials"][0]["checks"][0]["evidence"]["witness"] = {HOSTILE: [HOSTILE]}
    record = made.order()
    record["trials"][0]["checks"][0]["evidence"]["x_name"] = HOSTILE
    names = [tag for tag, _ in Outline(page_of(hostile, record)).tags]
    assert names.count("script") == 1
    assert names.count("b") == 2


@pytest.mark.parametrize("points", [3, 4, 11])
def test_a_fit_has_one_mark_for_each_point(points: int) -> None:
    record = made.order()
    for trial in record["trials"]:
        trial["checks"][0]["evidence"] = made.fit(1.5, points)
    page = page_of(record)
    assert page.count('class="dot"') == 2 * points
    assert page.count('class="wedge"') == 2
    assert "slope 1.5 ± 0.02" in page


def test_the_line_of_a_fit_passes_through_points_on_a_line() -> None:
    page = page_of(made.order())
    picture = page[page.index("<svg") :]
    dots = re.findall(r'class="dot" cx="([\d.]+)" cy="([\d.]+)"', picture)[:4]
    ends = re.search(r'class="fit" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', picture)
    assert ends is not None
    x0, y0, x1, y1 = map(float, ends.groups())
    for x, y in dots:
        on_line = y0 + (float(x) - x0) / (x1 - x0) * (y1 - y0)
        assert abs(float(y) - on_line) < 0.2  # two roundings to a tenth of a pixel


def test_points_without_a_logarithm_are_counted_not_drawn() -> None:
    record = made.order()
    record["trials"][0]["checks"][0]["evidence"]["y"][:2] = [0.0, math.nan]
    page = page_of(record)
    assert page.count('class="dot"') == 2 + 4
    assert "2 of 4 points cannot be drawn" in page


def test_an_ascent_is_thinned_and_keeps_its_highest_point() -> None:
    record = made.inequality()
    history = [-3.0] * 5000
    history[1234] = 1.0
    record["trials"][0]["checks"][0]["evidence"]["history"] = history
    page = page_of(record)
    actual = re.search(r'class="fit" d="M([^"]*)"', page)
    assert actual is not None
    heights = [float(point.split()[1]) for point in actual[1].split("L")]
    assert len(heights) <= 120
    assert min(heights) < 0.5 * max(heights)
    assert page.count('class="bound"') == 2


@pytest.mark.parametrize(
    "history", [[0.0], [-math.inf, math.nan, -1.0], [900.0], [-800.0, 0.0], []]
)
def test_any_history_has_a_plot_or_a_reason(history: list[float]) -> None:
    record = made.inequality()
    record["trials"][0]["checks"][0]["evidence"]["history"] = history
    page = page_of(record)
    non_finite = [h for h in history if not math.isfinite(h) or abs(h) > 700]
    assert ("cannot be drawn" in page) == bool(non_finite)
    assert "nan" not in re.sub(r"[^<]*</", "", page[page.index("<article") :]).lower()


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_a_non_finite_number_always_fails(value: float | None) -> None:
    record = made.identity()
    spoilt = copy.deepcopy(record)
    spoilt["trials"][0]["checks"][1] |= {"observed": value}
    page = page_of(spoilt)
    assert "not finite" in Outline(page).text("span")
    assert counts(page)[0] == (0, 1)
    assert 'data-kinds="failed"' in page
    assert "1 of 1 not as they must be" in page
    assert "not as they must be" not in page_of(record)


def test_a_null_of_json_fails_too() -> None:
    report = json.loads(json.dumps(made.full_report()).replace("NaN", "null"))
    assert counts(statements_page(report))[:2] == [(4, 5), (4, 5)]


def test_an_error_is_shown_and_fails() -> None:
    page = page_of(made.failing_statement())
    assert "ValueError: shapes <2> & $3 do not agree" in Outline(page).text()
    assert counts(page) == [(0, 1), (0, 1)]


@pytest.mark.parametrize("trials", [[], [made.trial("statement")]])
def test_nothing_measured_is_a_failure(trials: list[Record]) -> None:
    record = made.identity() | {"trials": trials, "has_passed": True}
    page = page_of(record)
    assert 'data-kinds="failed"' in page
    assert "not measured" in page or "nothing was measured" in page


def test_filters_separate_errata_inequalities_and_failures() -> None:
    actual = {
        attrs["id"]: (attrs["data-kinds"] or "").split()
        for tag, attrs in Outline(statements_page(made.full_report())).tags
        if tag == "article"
    }
    assert list(actual.values()) == [[], [], ["inequalities"], ["errata"], ["failed"]]


STANDS = {
    0.06: "≰ violated",
    2e-11: "≰ violated by too little",
    1e-12: "≤ not violated",
}


@pytest.mark.parametrize("value", STANDS)
def test_a_control_is_shown_relative_to_its_bound(value: float) -> None:
    sign, words = STANDS[value].split(maxsplit=1)
    record = made.identity()
    check = record["trials"][1]["checks"][0]
    check |= {"observed": value, "relation": "<=", "bound": 0.0, "tolerance": 1e-11}
    check |= {"holds": value <= 1e-11, "is_violated": value >= 1e-10}
    control = page_of(record).split('<section class="trial control">')[1]
    control = control.split("</section>")[0]
    assert f'<td class="relation">{sign}</td>' in control
    assert f"</span> {words}</span>" in control
    assert "<td>+ " in control  # the tolerance widens the bound to one side


def test_digits_distinguish_a_violation_from_its_bound() -> None:
    record = made.inequality()
    record["trials"][0]["checks"][0] |= {"observed": 1 + 1e-7, "tolerance": 1e-9}
    assert ">1.0000001<" in page_of(record)


def test_the_page_states_versions_and_how_to_repeat() -> None:
    page = page_of(made.identity(), size="full", seed=7)
    assert "meanfield verify castin2025:lemma-4.1 --size full --seed 7" in page
    assert "meanfield verify castin2025:lemma-4.1</code>" in page_of(made.identity())
    assert "--replay" in page


def test_a_large_verification_is_modest(tmp_path: Path) -> None:
    makers: list[Callable[..., Record]] = [
        *(made.identity, made.order, made.inequality, made.erratum)
    ]
    records = [makers[i % 4](f"castin2025:lemma-{i}") for i in range(130)]
    file = save_statements_page(made.report(*records), tmp_path / "many")
    assert file == tmp_path / "many.html"
    assert file.stat().st_size < 2_000_000


def test_an_empty_report_has_a_page_that_states_it() -> None:
    assert "Nothing was measured." in page_of()


def test_runs_without_a_page_are_rejected_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="verify --json"):
        statements_page({})
    with pytest.raises(InvalidInputError, match=r"`\.pdf`; use `\.html`"):
        save_statements_page(made.full_report(), tmp_path / "a.pdf")
    with pytest.raises(ResourceError, match="cannot be written"):
        save_statements_page(made.full_report(), tmp_path / "missing" / "a")
    with pytest.raises(ValueError, match=r"`castin2025:lemma-4.1`.*\\nonsense"):
        page_of(made.identity(claim=r"$\nonsense{x}$"))
    assert list(tmp_path.iterdir()) == []


def test_the_page_loads_neither_jax_nor_matplotlib() -> None:
    program = (
        "import sys; from meanfield.plotting import statements_page; "
        "print(*{'jax', 'matplotlib', 'xarray', 'numpy', 'meanfield.theorems'}"
        " & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""
