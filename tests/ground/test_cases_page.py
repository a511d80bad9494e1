"""Tests that the list of cases in the docs matches the existing cases."""

from tests.cases_page import ABOUT, HISTORY, PAGE, PLANNING, page


def test_the_page_lists_the_cases_as_they_are() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.cases_page > docs/understand/cases.md"


def test_every_file_of_planning_cases_is_on_the_page() -> None:
    assert {path.stem for path in PLANNING.glob("*.json")} == set(ABOUT)


def test_the_files_that_the_page_names_are_there() -> None:
    tests = PLANNING.parent.parent
    for name in (
        "architecture/test_plan_cases.py",
        "loader/test_plan_cases_spark.py",
        "loader/reference/test_cases.py",
        "loader/test_policies_spark.py",
    ):
        assert (tests / name).is_file()
    assert sorted(path.stem for path in HISTORY.glob("*.json")) == ["acceptance", "contract", "own"]
