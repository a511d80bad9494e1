"""Locations of uploaded files: the next load of their source reads them there."""

import pytest

from loader.contract.refusals import Refusal
from loader.domain.sources.uploads import upload_location


def located(location: str, name: str, *, is_folder: bool = False) -> str:
    return upload_location(location, name, source_format="csv", is_folder=is_folder)


@pytest.mark.parametrize(
    ("location", "name", "stored"),
    [
        ("orders.csv", "orders.csv", "orders.csv"),
        ("orders.csv", "orders (1).csv", "orders.csv"),
        ("in/orders.csv.gz", "new.csv.gz", "in/orders.csv.gz"),
        ("orders_*.csv", "orders_02.csv", "orders_02.csv"),
        ("in/orders_*.csv", "orders_02.csv", "in/orders_02.csv"),
        ("/landing/in/[ab].csv", "b.csv", "/landing/in/b.csv"),
    ],
)
def test_upload_replaces_a_single_file_or_adds_to_those_of_a_pattern(location: str, name: str, stored: str):
    assert located(location, name) == stored


@pytest.mark.parametrize(("folder", "stored"), [("in", "in/a.csv"), ("in/", "in/a.csv"), ("", "a.csv"), (".", "a.csv")])
def test_a_file_is_stored_in_the_folder_of_the_source(folder: str, stored: str):
    assert located(folder, "a.csv", is_folder=True) == stored


@pytest.mark.parametrize(
    ("location", "name", "code"),
    [
        ("orders_*.csv", "customers.csv", "NO_MATCH"),
        ("*/orders_*.csv", "orders_1.csv", "NO_PLACE"),
        ("orders.csv", "orders.xlsx", "OTHER_FORMAT"),
        ("orders.csv", "orders.csv.gz", "OTHER_FORMAT"),
    ],
)
def test_a_file_that_no_load_would_read_is_refused(location: str, name: str, code: str):
    with pytest.raises(Refusal) as caught:
        located(location, name)
    assert caught.value.code == code
