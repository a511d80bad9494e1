"""Tests of the part of the suite that a test belongs to."""

import pytest

from tests.suite.tiers import is_at_a_door


@pytest.mark.parametrize(
    ("file", "door"),
    [
        ("tests/metadata/views/test_columns.py", True),
        ("tests/loader/views/sources/test_systems.py", True),
        ("tests/architecture/api/test_workflow.py", True),
        ("tests/loader/commands/test_demo.py", True),
        ("tests/loader/schedules/test_views.py", True),
        ("tests/loader/schedules/test_services.py", False),
        ("tests/architecture/domain/test_views.py", False),
        ("tests/loader/dialects/test_views.py", False),
        ("tests/attacks/test_http.py", True),
        ("tests/elevata/web/test_routes.py", True),
        ("tests/elevata/audit/test_chain.py", False),
        ("tests/metadata/services/test_models.py", False),
        ("tests/loader/domain/test_spark_settings.py", False),
    ],
)
def test_tests_of_pages_api_commands_and_attacks_are_at_a_door(file: str, door: bool):
    assert is_at_a_door(file) is door


def collected(pytester: pytest.Pytester, marks: str) -> pytest.RunResult:
    options = ("-p", "no:django", "-p", "tests.suite.plugin", "--collect-only", "-q")
    return pytester.runpytest_inprocess(*options, "-m", marks)


def test_make_test_selects_the_first_test_of_a_file_of_pages(pytester: pytest.Pytester):
    folder = pytester.mkpydir("tests").joinpath("views")
    folder.mkdir()
    folder.joinpath("test_pages.py").write_text(
        "import pytest\n"
        "pytestmark = pytest.mark.database\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_first(n): pass\n"
        "@pytest.mark.core\n"
        "def test_core(): pass\n"
        "def test_other(): pass\n"
    )
    result = collected(pytester, "not full")
    result.stdout.fnmatch_lines(["tests/views/test_pages.py::test_first?1?", "tests/views/test_pages.py::test_core"])
    result.assert_outcomes(deselected=2)


def test_make_test_selects_the_first_case_of_a_core_test_of_spark_unless_each_is_core(pytester: pytest.Pytester):
    pytester.path.joinpath("test_loads.py").write_text(
        "import pytest\n"
        "pytestmark = pytest.mark.spark\n"
        "@pytest.mark.core\n"
        "@pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.nightly), 2, 3])\n"
        "def test_first(n): pass\n"
        "@pytest.mark.core(each=True)\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_each(n): pass\n"
        "def test_other(): pass\n"
    )
    result = collected(pytester, "core and not (full or nightly)")
    cases = ["test_loads.py::test_first?2?", "test_loads.py::test_each?1?"]
    result.stdout.fnmatch_lines([*cases, "test_loads.py::test_each?2?"])
    result.assert_outcomes(deselected=3)
