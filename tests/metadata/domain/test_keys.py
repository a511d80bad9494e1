"""Tests of stable keys: every installation derives the same ones."""

from uuid import UUID

from metadata.domain import stable_keys

AIRPORT = stable_keys.source_dataset_key("air", "airport")


def test_keys_are_the_same_on_every_machine() -> None:
    assert UUID("50394eef-adce-586c-9511-490886edbbb5") == AIRPORT


def test_a_generated_column_has_the_same_key_everywhere() -> None:
    key = stable_keys.generated_column_key("rawcore", stable_keys.source_column_key(AIRPORT, "icao"))
    assert key == UUID("de47498f-99a4-5610-b5b3-c6bd3747dcaa")


def test_generated_datasets_of_each_layer_have_different_keys() -> None:
    assert len({stable_keys.generated_dataset_key(layer, AIRPORT) for layer in ("raw", "stage", "rawcore")}) == 3


def test_source_dataset_key_depends_on_where_system_and_name_are_split() -> None:
    assert stable_keys.source_dataset_key("a_b", "c") != stable_keys.source_dataset_key("a", "b_c")


def test_a_name_used_again_gets_another_key() -> None:
    assert stable_keys.source_dataset_key("air", "airport", 1) != AIRPORT


def test_a_column_and_a_dataset_of_one_name_differ() -> None:
    assert stable_keys.target_column_key(AIRPORT, "x") != stable_keys.history_dataset_key(AIRPORT)
