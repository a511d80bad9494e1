"""Groups of files that one source can read by a pattern, and names of sources."""

import pytest

from loader.domain.sources.file_detection.file_groups import ReadFile, group_files
from loader.domain.sources.file_detection.file_names import source_name


def read_file(location: str, names: str = "id,name", **options: str) -> ReadFile:
    return ReadFile(location, "csv", options, tuple(names.split(",")))


@pytest.mark.parametrize(
    ("files", "groups"),
    [
        ([read_file("k_2026-11-01.csv"), read_file("k_2026-11-02.csv")], ["k_*.csv"]),
        ([read_file("k_2026-11-01.csv"), read_file("k_2026-11-02.csv", "id")], ["", ""]),
        ([read_file("k_2026-11-01.csv"), read_file("o_2026-11-01.csv")], ["", ""]),
        ([read_file("orders_1.csv"), read_file("orders_2.csv")], ["orders_*.csv"]),
        ([read_file("in/orders_1.csv"), read_file("in/orders_2.csv")], ["in/orders_*.csv"]),
        ([read_file("in/orders.csv"), read_file("out/orders.csv")], ["", ""]),
        ([read_file("orders.csv"), read_file("customers.csv")], [""]),
        ([read_file("a1.csv"), read_file("a2.csv")], [""]),
        ([read_file("orders_1.csv"), read_file("orders_2.csv", decimal_separator=",")], ["orders_*.csv"]),
        ([read_file("orders_1.csv", delimiter=";"), read_file("orders_2.csv", delimiter="|")], [""]),
        ([read_file("orders_1.csv")], [""]),
    ],
)
def test_files_of_one_header_have_a_pattern_if_their_names_do(files: list[ReadFile], groups: list[str]):
    assert [group.pattern for group in group_files(files)] == groups


def test_options_of_a_pattern_are_those_of_all_its_files():
    files = [read_file("orders_1.csv"), read_file("orders_2.csv", decimal_separator=",")]
    assert group_files(files)[0].options == {"decimal_separator": ","}


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("in/kunden_2026-11-01.csv", "kunden"),
        ("kunden_*.csv", "kunden"),
        ("in/{run_date}/kunden.csv", "kunden"),
        ("orders-*-full.csv", "orders_full"),
        ("{date:%Y}_sales.csv", "sales"),
        ("part-[0-9]*.csv", "part"),
        ("*.csv", "*"),
        ("orders.csv", "orders"),
    ],
)
def test_name_of_a_source_has_neither_date_nor_pattern(location: str, name: str):
    assert source_name(location) == name
