"""Cache of parsed JSON of rows, which parses a row again only after a write."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from architecture.models import Environment, Observation
from architecture.selectors.json_cache import Parsed
from architecture.services.environments import current_environment
from metadata.domain import stable_keys

pytestmark = pytest.mark.django_db


class Reader:
    """Parser that records the documents it is called with."""

    def __init__(self) -> None:
        self.read: list[Any] = []

    def __call__(self, json: Any) -> str:
        self.read.append(json["name"])
        return json["name"].upper()


def create_observations(environment: Environment, *names: str) -> list[Observation]:
    now = timezone.now()
    return [
        Observation.objects.create(
            environment=environment,
            table_key=stable_keys.target_dataset_key("rawcore", name),
            document={"name": name},
            observed_at=now,
        )
        for name in names
    ]


def cache_of(reader: Reader, most: int = 10) -> Parsed[str]:
    return Parsed(reader, column="document", stamp="observed_at", most=most)


def test_json_of_a_row_is_parsed_once(django_assert_num_queries):
    create_observations(current_environment(), "a", "b")
    reader, rows = Reader(), Observation.objects.order_by("pk")
    values = cache_of(reader)
    assert list(values.by_pk(rows).values()) == ["A", "B"]
    with django_assert_num_queries(1):
        assert list(values.by_pk(rows).values()) == ["A", "B"]
    assert reader.read == ["a", "b"]


def test_json_of_a_changed_row_is_parsed_again():
    first, _ = create_observations(current_environment(), "a", "b")
    reader, rows = Reader(), Observation.objects.order_by("pk")
    values = cache_of(reader)
    values.by_pk(rows)
    later = first.observed_at + timedelta(seconds=1)
    Observation.objects.filter(pk=first.pk).update(document={"name": "c"}, observed_at=later)
    assert list(values.by_pk(rows).values()) == ["C", "B"]
    assert reader.read == ["a", "b", "c"]


def test_cache_keeps_only_the_newest_rows():
    rows = Observation.objects.order_by("pk")
    create_observations(current_environment(), "a", "b", "c")
    reader = Reader()
    values = cache_of(reader, most=2)
    values.by_pk(rows)
    assert list(values.by_pk(rows).values()) == ["A", "B", "C"]
    assert reader.read == ["a", "b", "c", "a"]
