"""Tests that the list of cases in the docs matches the existing cases."""

from tests.repository.cases_page import ABOUT, HISTORY, PAGE, PLANNING, page


def test_cases_page_matches_the_existing_cases() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), f"python -m {page.__module__} > docs/understand/cases.md"


def test_every_file_of_planning_cases_is_on_the_page() -> None:
    assert {path.stem for path in PLANNING.glob("*.json")} == set(ABOUT)


def test_files_named_by_the_cases_page_exist() -> None:
    tests = HISTORY.parents[2]
    for name in (
        "architecture/domain/planning/test_cases.py",
        "loader/engine/tables/test_plan_cases.py",
        "loader/reference/test_cases.py",
        "loader/engine/historization/test_policies.py",
    ):
        assert (tests / name).is_file()
    assert sorted(path.stem for path in HISTORY.glob("*.json")) == ["acceptance", "contract", "own"]
