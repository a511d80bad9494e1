"""Bounds of the web app, and tables of its results."""

from pathlib import Path

import pytest

from bench.problem import BenchProblem
from bench.report import write_into
from bench.web.results import as_markdown, evaluate
from bench.web.times import percentile


def page(name: str, milliseconds: int, route: str = "") -> dict:
    times = dict.fromkeys(("first_ms", "median_ms", "p95_ms", "busy_ms"), milliseconds)
    return {"page": name, "route": route or name, "queries": 7, "kilobytes": 12, **times}


def document(*pages: dict, paint: int = 400) -> dict:
    content = {"pages": list(pages), "paint": [{"page": pages[0]["page"], "median_ms": paint, "p95_ms": paint}]}
    return content | {"bounds": evaluate(content)}


def test_bound_names_the_slowest_page_over_the_limit():
    server, *_ = document(page("home", 80), page("drift_page", 310))["bounds"].values()
    assert (server["met"], server["value"]) == (False, "310 ms (drift_page); 1 are over it")


def test_bound_excludes_parts_loaded_after_a_page():
    server, *_ = document(page("home", 80), page("report_status", 4000))["bounds"].values()
    assert (server["met"], server["value"]) == (True, "80 ms (home)")


def test_search_lineage_health_and_charts_have_limits_of_their_own():
    pages = [page("search", 210), page("column_lineage", 400), page("health_page", 290), page("run_charts", 310)]
    bounds = document(page("home", 80), *pages)["bounds"]
    assert [(name.partition(":")[0], row["wanted"], row["met"]) for name, row in bounds.items()] == [
        ("1 pages and API answers", "< 300 ms", True),
        ("1 pages and API answers", "< 300 ms", True),
        ("search", "< 200 ms", False),
        ("lineage by column", "< 500 ms", True),
        ("health", "< 300 ms", True),
        ("charts", "< 300 ms", False),
        ("first contentful paint, the slowest page's median", "< 1000 ms", True),
    ]


def test_bound_takes_the_slowest_paint():
    assert [bound["met"] for bound in document(page("home", 80), paint=1200)["bounds"].values()] == [True, True, False]


def test_tables_separate_pages_from_parts():
    text = as_markdown(document(page("home", 80), page("inbox_rows", 900)))
    assert "| home | 7 | 80 ms | 80 ms | 80 ms | 12 | 400 ms |" in text
    assert "| inbox_rows | 7 | 900 ms | 900 ms | 900 ms | 12 | follows the inbox" in text


def test_tables_are_put_between_their_marks(tmp_path: Path):
    file = tmp_path / "performance.md"
    file.write_text("before\n<!-- bench.web: begin -->\nold\n<!-- bench.web: end -->\nafter\n")
    write_into(file, "new", "web")
    assert file.read_text() == "before\n<!-- bench.web: begin -->\nnew\n<!-- bench.web: end -->\nafter\n"


def test_writing_tables_into_a_file_without_marks_is_refused(tmp_path: Path):
    file = tmp_path / "other.md"
    file.write_text("nothing\n")
    with pytest.raises(BenchProblem, match="other.md has no place for the tables"):
        write_into(file, "new", "web")


@pytest.mark.parametrize(("share", "value"), [(0.95, 10), (0.9, 9), (0.5, 5), (0.05, 1)])
def test_percentile_is_one_of_the_numbers(share: float, value: int):
    assert percentile([float(number) for number in range(1, 11)], share) == value
