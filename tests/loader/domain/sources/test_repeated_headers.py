"""Records of CSV that repeat the header."""

import pytest

from loader.domain.sources.repeated_headers import header_texts, repeats_header


@pytest.mark.parametrize("record", [["id", "v"], [" id", "v\t"], ["\ufeffid", "v"]])
def test_names_of_the_header_with_blanks_or_a_byte_order_mark_repeat_it(record: list[str]):
    assert repeats_header(record, ("id", "v"))


def test_column_without_a_name_is_compared_as_empty():
    header = header_texts(["id", " v", ""])
    assert repeats_header(["id", "v", None], header)
    assert not repeats_header(["id", "v", "1"], header)


@pytest.mark.parametrize(
    ("record", "names"),
    [
        (["id", "w"], ("id", "v")),
        (["v", "id"], ("id", "v")),
        (["ID", "V"], ("id", "v")),
        (["id"], ("id",)),
        (["id", None], ("id", "")),
    ],
)
def test_other_values_and_one_name_alone_are_no_header(record: list[str], names: tuple[str, ...]):
    assert not repeats_header(record, names)
