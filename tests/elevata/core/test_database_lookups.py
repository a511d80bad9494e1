"""Tests of the product's own ORM lookups, on every supported database."""

from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext

from metadata.models import SourceColumn, SourceDataset
from tests.factories import SourceColumnFactory, SourceDatasetFactory

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]


@pytest.fixture
def three() -> list[SourceDataset]:
    return [SourceDatasetFactory(name=name) for name in ("a", "b", "c")]


def names(*wanted: Q, **fields: object) -> set[str]:
    return set(SourceDataset.objects.filter(*wanted, **fields).values_list("name", flat=True))


def test_among_accepts_stable_keys_as_uuids_and_texts(three: list[SourceDataset]) -> None:
    assert names(key__among=[three[0].key, str(three[2].key), uuid4()]) == {"a", "c"}


def test_among_accepts_texts_and_numbers(three: list[SourceDataset]) -> None:
    assert names(name__among={"a", 'it\'s {"quoted", \\}', "100 %"}, pk__among=(row.pk for row in three)) == {"a"}


def test_among_filters_by_a_column_of_a_related_table(three: list[SourceDataset]) -> None:
    column = SourceColumnFactory(dataset=three[1])
    assert SourceColumn.objects.get(dataset__key__among=[three[1].key]) == column


def test_among_accepts_a_generator_for_repeated_queries(three: list[SourceDataset]) -> None:
    datasets = SourceDataset.objects.filter(pk__among=(dataset.pk for dataset in three))
    assert (datasets.count(), datasets.count()) == (3, 3)


def test_among_an_empty_list_matches_no_row(three: list[SourceDataset]) -> None:
    assert names(key__among=[]) == set()
    assert names(~Q(key__among=[])) == {"a", "b", "c"}
    assert names(Q(key__among=[]) | Q(name="b")) == {"b"}


def test_thousands_of_keys_are_one_parameter(three: list[SourceDataset]) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert names(key__among=[*(uuid4() for _ in range(5000)), three[1].key]) == {"b"}
    (query,) = queries.captured_queries
    assert query["sql"].count("SELECT") <= 2
    assert ", '" not in query["sql"].partition("WHERE")[2]
