"""Names of files in the provenance of raw rows."""

import pytest

from loader.domain.sources.provenance import folder_of, name_below


@pytest.mark.parametrize(
    ("location", "path", "name"),
    [
        ("/in/orders", "file:/in/orders/2024/a.csv", "2024/a.csv"),
        ("/in/orders.csv", "file:/in/orders.csv", "orders.csv"),
        ("/in/*/a-*.csv", "file:/in/x/a-1.csv", "x/a-1.csv"),
        ("s3a://bucket/in", "s3a://bucket/in/a.csv", "a.csv"),
        ("/in/orders", "file:/elsewhere/a.csv", "/elsewhere/a.csv"),
        ("s3a://bucket/in", "s3a://bucket/input/a.csv", "s3a://bucket/input/a.csv"),
    ],
)
def test_the_name_of_a_file_is_its_path_below_the_location(location, path, name):
    assert name_below(path, folder_of(location)) == name
