"""Tests of ``make test-changed``: selection of the test files that a change affects."""

import grimp
import pytest

from tests.suite.changed import reached

TESTS = [
    "tests/loader/domain/test_marks.py",
    "tests/loader/services/test_loads.py",
    "tests/metadata/domain/test_names.py",
    "tests/loader/views/test_pages.py",
    "tests/elevata/web/test_home.py",
    "tests/repository/test_pins.py",
]


@pytest.fixture
def graph() -> grimp.ImportGraph:
    graph = grimp.ImportGraph()
    imports = {
        "tests.loader.domain.test_marks": "loader.domain.marks",
        "tests.loader.services.test_loads": "loader.services.loads",
        "loader.services.loads": "loader.domain.marks",
        "tests.metadata.domain.test_names": "metadata.domain.names",
    }
    for importer, imported in imports.items():
        graph.add_import(importer=importer, imported=imported)
    return graph


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("loader/domain/marks.py", {"tests/loader/domain/test_marks.py", "tests/loader/services/test_loads.py"}),
        ("loader/services/loads.py", {"tests/loader/services/test_loads.py"}),
        ("tests/metadata/domain/test_names.py", {"tests/metadata/domain/test_names.py"}),
        ("loader/domain/removed.py", set()),
        ("templates/loader/run.html", {"tests/loader/views/test_pages.py"}),
        ("templates/base.html", {"tests/elevata/web/test_home.py"}),
        ("tests/loader/conftest.py", {name for name in TESTS if name.startswith("tests/loader/")}),
        ("requirements.txt", {"tests/repository/test_pins.py"}),
    ],
    ids=[
        *("importers", "an outer module", "a test", "a removed module"),
        *("a template", "a template of all apps", "a conftest", "another file"),
    ],
)
def test_changed_file_selects_the_tests_that_import_it(graph: grimp.ImportGraph, changed: str, tests: set[str]):
    assert reached([changed], TESTS, graph) == tests
