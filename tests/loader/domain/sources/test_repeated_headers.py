"""Records of CSV that repeat the header."""

import pytest

from loader.domain.sources.repeated_headers import repeats_header


@pytest.mark.parametrize("record", [["id", "v"], [" id", "v\t"], ["\ufeffid", "v"]])
def test_names_of_the_header_with_blanks_or_a_byte_order_mark_repeat_it(record: list[str]):
    assert repeats_header(record, ("id", "v"))


@pytest.mark.parametrize(
    ("record", "names"),
    [
        (["id", "w"], ("id", "v")),
        (["v", "id"], ("id", "v")),
        (["ID", "V"], ("id", "v")),
        (["id"], ("id",)),
    ],
)
def test_other_values_and_one_name_alone_are_no_header(record: list[str], names: tuple[str, ...]):
    assert not repeats_header(record, names)
