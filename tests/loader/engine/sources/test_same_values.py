"""Values of a refused delivery that show that a missing column has another name now."""

import pytest

from tests.loader.harness import Dataset, finished

pytestmark = [pytest.mark.spark, pytest.mark.takes(seconds=8)]

COLUMNS = {"id": "integer", "annotation": "string", "lang": "string"}


def rows(name: str, *values: str, lang: str = "lang") -> list[dict]:
    return [{"id": number, name: value, lang: "en"} for number, value in enumerate(values)]


def refused(item: Dataset, delivered: list[dict]) -> tuple[str, dict[str, list]]:
    """Return the code of the refusal, and the equal columns of each new column."""
    manifest = item.manifest(item.deliver(delivered), at="2024-01-02T00:00:00Z", run_id="run-2")
    _, events = item.attempt(manifest)
    raw = finished(events, item.raw_state.key)
    return raw["error"]["code"], {column["name"]: column.get("same_as", []) for column in raw["schema"]}


def test_refusal_links_a_new_column_to_the_missing_column_with_the_same_values(spark, tmp_path):
    item = Dataset(spark, tmp_path, columns=COLUMNS)
    item.load(rows("annotation", "grin", "smile", "wink", "kiss"), at="2024-01-01T00:00:00Z")
    item.sequence += 1
    code, same = refused(item, rows("label", "grin", "smile", "wink", "other", "new", lang="locale"))
    # One value for all keys proves nothing, so lang is not the same as locale.
    assert (code, same["label"], same["locale"]) == ("MISSING_COLUMN", [["annotation", 3, 4]], [])
