"""Tests of the benchmark's models: each has columns that read the layer below."""

from bench.models import described_datasets, invented_models
from metadata.domain.models import ReadColumn, describe_select


def test_invented_models_have_columns_over_those_below():
    known = dict(described_datasets())
    for name, text in invented_models(30).items():
        columns = describe_select(text, known).columns
        assert [column.name for column in columns] == ["c0", "c1", "c2", "c3", "c4", "c5"]
        known[name] = tuple(ReadColumn(column.name, column.type, column.nullable) for column in columns)
