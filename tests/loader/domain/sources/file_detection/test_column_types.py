"""Types of the columns of texts."""

import pytest

from loader.domain.sources.file_detection.column_types import column_type
from metadata.domain.sources.value_formats import ValueFormats


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (["20240101", "20241231"], {"date_format": "%Y%m%d"}, "date"),
        (["20240101", "20241231"], {}, "integer"),
        (["20240101", "20241341"], {"date_format": "%Y%m%d"}, "integer"),
        (["yes", "No", None], {}, "boolean"),
        (["yes", "yes"], {}, "string"),
        (["ja", "nein"], {"true_words": "ja", "false_words": "nein"}, "boolean"),
        (["yes", "no"], {"true_words": "ja", "false_words": "nein"}, "string"),
        (["1,5"], {"decimal_separator": ","}, "float"),
        (["  1 ", " 20 "], {}, "integer"),
        ([" 10.50", "200.25"], {}, "decimal(18,2)"),
        ([" 2024-01-31 ", "2024-02-01"], {}, "date"),
        (["  1 ", "  "], {}, "string"),
        ([" 01067", "10115 "], {}, "string"),
    ],
)
def test_column_type_follows_values_and_formats(values: list, options: dict, expected: str):
    assert str(column_type(values, ValueFormats.of(options))[0]) == expected
