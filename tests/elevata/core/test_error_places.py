"""Tests of the file and line of an error's place."""

import pytest

from elevata.core.errors import MetadataError


@pytest.mark.parametrize(
    ("place", "file", "line"),
    [
        ("", "", ""),
        ("columns.csv", "columns.csv", ""),
        ("columns.csv:12", "columns.csv", "12"),
        ("systems/air.yaml:12:5", "systems/air.yaml", "12"),
        ("C:/metadata/air.yaml:12:5", "C:/metadata/air.yaml", "12"),
        ("a:b.yaml", "a:b.yaml", ""),
    ],
)
def test_a_place_has_a_file_and_a_line(place: str, file: str, line: str):
    error = MetadataError("invalid", "is wrong", place=place)
    assert (error.file, error.line) == (file, line)
