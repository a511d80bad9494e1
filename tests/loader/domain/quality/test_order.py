"""Order of datasets whose checks read others."""

from loader.domain.quality.checks import waits_for_checks


def test_a_dataset_waits_for_those_that_its_checks_read():
    assert waits_for_checks({"a": (), "b": ()}, {"b": {"a"}}) == {"b": ("a",)}


def test_check_adds_no_wait_for_a_dataset_that_depends_on_the_checked_one():
    assert waits_for_checks({"a": (), "b": ("a",), "c": ("b",)}, {"a": {"c"}}) == {}


def test_datasets_that_check_each_other_wait_in_one_direction_only():
    assert waits_for_checks({"a": (), "b": ()}, {"a": {"b"}, "b": {"a"}}) == {"a": ("b",)}


def test_datasets_outside_the_run_and_the_dataset_itself_are_not_waited_for():
    assert waits_for_checks({"a": ()}, {"a": {"a", "elsewhere"}}) == {}
