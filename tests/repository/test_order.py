"""Tests of the distribution of test files: longest first, and never split."""

from types import SimpleNamespace

import pytest

from tests.order import longest_files_first, seconds


class Item(SimpleNamespace):
    """Stand-in for a collected test, with the attributes that ordering reads."""

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)


def item(nodeid: str, *fixtures: str, **marks: pytest.Mark) -> Item:
    return Item(nodeid=nodeid, fixturenames=list(fixtures), marks=marks)


def mark(name: str, **given: object) -> pytest.Mark:
    return getattr(pytest.mark, name)(**given).mark


def test_few_long_tests_come_before_many_short_ones():
    short = [item(f"tests/test_pure.py::test_{number}") for number in range(50)]
    long = [item("tests/test_spark.py::test_a", spark=mark("spark"))]
    assert longest_files_first(short + long) == long + short


def test_a_files_tests_stay_together_in_their_order():
    first, second = item("tests/test_a.py::test_1", "db"), item("tests/test_a.py::test_2")
    other = item("tests/test_b.py::test_1", "db")
    assert longest_files_first([first, other, second]) == [first, second, other]


def test_the_order_does_not_depend_on_the_one_that_was_found():
    tests = [item(f"tests/test_{name}.py::test_1") for name in "cab"]
    assert longest_files_first(tests) == longest_files_first(tests[::-1])


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
def test_what_needs_more_is_taken_to_be_longer(shorter: Item, longer: Item):
    assert seconds(shorter) < seconds(longer)
