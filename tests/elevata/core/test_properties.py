"""Java properties, parsed as Spark parses its settings files."""

import pytest

from elevata.core.properties import BadProperties, Property, parse_properties

CASES = [
    ("spark.a 1", [("spark.a", "1")]),
    ("spark.a=1", [("spark.a", "1")]),
    ("spark.a : 1", [("spark.a", "1")]),
    ("spark.a\t=\t1 2 ", [("spark.a", "1 2")]),
    ("spark.a==1", [("spark.a", "=1")]),
    ("spark.a", [("spark.a", "")]),
    ("# spark.a 1\n  ! spark.b 2\n\n \n", []),
    ("spark.a 1,\\\n   2,\\\n  3\nspark.b 4", [("spark.a", "1,2,3"), ("spark.b", "4")]),
    ("spark.a 1\\\\\nspark.b 2", [("spark.a", "1\\"), ("spark.b", "2")]),
    ("spark.a 1\\\n# no comment", [("spark.a", "1# no comment")]),
    ("spark\\ a\\=b\\:c 1", [("spark a=b:c", "1")]),
    ("spark.a \\u00e4\\t\\q", [("spark.a", "ä\tq")]),
    ("spark.a 1\r\nspark.b 2\rspark.c 3", [("spark.a", "1"), ("spark.b", "2"), ("spark.c", "3")]),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_properties_are_parsed_into_names_and_values(text, expected):
    assert [(entry.name, entry.value) for entry in parse_properties(text)] == expected


def test_each_property_has_the_line_on_which_it_begins():
    text = "# first\nspark.a 1,\\\n 2\n\nspark.b 3\n"
    assert parse_properties(text) == [Property("spark.a", "1,2", 2), Property("spark.b", "3", 5)]


def test_an_escape_that_is_no_character_is_refused_with_its_line():
    with pytest.raises(BadProperties, match=r"line 2: \\u needs four hexadecimal digits"):
        parse_properties("spark.a 1\nspark.b \\u12")
