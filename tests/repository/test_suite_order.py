"""Tests of the distribution of test files: Spark's at the front, the others at the back, each whole."""

from types import SimpleNamespace

import pytest

from tests.suite.order import estimated_seconds, spark_first


class Item(SimpleNamespace):
    """Stand-in for a collected test, with the attributes that ordering reads."""

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)


def item(nodeid: str, *fixtures: str, **marks: pytest.Mark) -> Item:
    return Item(nodeid=nodeid, fixturenames=list(fixtures), marks=marks)


def mark(name: str, **given: object) -> pytest.Mark:
    return getattr(pytest.mark, name)(**given).mark


SPARK = {"spark": mark("spark")}


def test_spark_files_run_first_from_the_longest_and_others_last_to_the_longest():
    short, long = item("tests/test_a.py::test_1", **SPARK), item("tests/test_b.py::test_1", **SPARK)
    pure, database = item("tests/test_c.py::test_1"), item("tests/test_d.py::test_1", "db")
    measured = {long.nodeid: 60.0}
    assert spark_first([database, pure, short, long], measured) == [long, short, pure, database]


def test_order_prefers_a_measured_time_over_an_estimate():
    first, second = item("tests/test_a.py::test_1", "db"), item("tests/test_b.py::test_1")
    assert spark_first([first, second], {}) == [second, first]
    assert spark_first([first, second], {second.nodeid: 9.0}) == [first, second]


def test_tests_of_a_file_are_ordered_together():
    first, second = item("tests/test_a.py::test_1", "db"), item("tests/test_a.py::test_2")
    other = item("tests/test_b.py::test_1")
    assert spark_first([first, other, second], {}) == [other, first, second]


def test_file_with_one_spark_test_is_ordered_as_a_spark_file():
    pure, spark = item("tests/test_a.py::test_1"), item("tests/test_a.py::test_2", **SPARK)
    other = item("tests/test_b.py::test_1")
    assert spark_first([other, pure, spark], {}) == [pure, spark, other]


def test_order_is_independent_of_the_collection_order():
    tests = [item(f"tests/test_{name}.py::test_1") for name in "cab"]
    assert spark_first(tests, {}) == spark_first(tests[::-1], {})


@pytest.mark.parametrize(
    ("shorter", "longer"),
    [
        (item("a::b"), item("a::b", "db")),
        (item("a::b", "db"), item("a::b", "db", "transactional_db")),
        (item("a::b", django_db=mark("django_db")), item("a::b", django_db=mark("django_db", transaction=True))),
        (item("a::b", "live_server"), item("a::b", spark=mark("spark"))),
        (item("a::b", spark=mark("spark")), item("a::b", takes=mark("takes", seconds=200))),
        (item("a::b", browser=mark("browser")), item("a::b", spark=mark("spark"), browser=mark("browser"))),
    ],
    ids=["a database", "committing", "committing by its mark", "Spark", "a mark", "a whole installation"],
)
def test_a_test_that_needs_more_is_estimated_to_take_longer(shorter: Item, longer: Item):
    assert estimated_seconds(shorter) < estimated_seconds(longer)
