"""Tests of the classification of models: rows chosen by sensitive columns, and hashes of sensitive keys."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from elevata.accounts.actors import acting_as
from elevata.accounts.services.users import ensure_user
from elevata.core.errors import MetadataError
from metadata.models import TargetDataset
from metadata.selectors.classification import classification
from metadata.selectors.row_inputs import row_inputs
from metadata.services.datasets import targets
from metadata.services.lifecycle import retire_column
from metadata.services.references import update_reference
from tests.factories import (
    DatasetInputFactory,
    ReferenceFactory,
    TargetColumnFactory,
    TargetDatasetFactory,
    TargetSchemaFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def person() -> TargetDataset:
    """Return ``rawcore.person`` with the sensitive key ``email`` and the sensitive column ``salary``."""
    dataset = TargetDatasetFactory(name="person")
    TargetColumnFactory(dataset=dataset, name="email", nullable=False, key_ordinal=1, pii=True)
    TargetColumnFactory(dataset=dataset, name="id", data_type="bigint")
    TargetColumnFactory(dataset=dataset, name="salary", data_type="bigint", sensitivity="confidential")
    TargetDatasetFactory(name="person_hist", history_of=dataset)
    return dataset


@pytest.fixture
def letters() -> TargetDataset:
    dataset = TargetDatasetFactory(name="letter")
    TargetColumnFactory(dataset=dataset, name="ch", nullable=False, key_ordinal=1)
    return dataset


@pytest.fixture
def bizcore():
    return TargetSchemaFactory(name="bizcore")


def sensitive(dataset: TargetDataset) -> set[str]:
    return set(classification(dataset).sensitive_present)


def test_columns_selected_by_a_sensitive_column_are_sensitive_across_models(person, letters, bizcore) -> None:
    select = "SELECT p.id, a.ch FROM rawcore.person p JOIN rawcore.letter a ON a.ch = substr(p.email, 1, 1)"
    first = targets.create_target_dataset(schema=bizcore, name="initial", select=select)
    copied = "SELECT upper(ch) AS c FROM bizcore.initial"
    next_ = targets.create_target_dataset(schema=bizcore, name="copied", select=copied)
    assert (sensitive(first), sensitive(next_)) == ({"ch"}, {"c"})


def test_column_is_sensitive_if_it_depends_on_rows_that_another_model_leaves_out(person, bizcore) -> None:
    rich = "SELECT id FROM rawcore.person WHERE salary > 90000"
    select = "SELECT l.ch, l.ch IN (SELECT cast(id AS string) FROM bizcore.rich) AS x FROM rawcore.letter l"
    TargetColumnFactory(dataset=TargetDatasetFactory(name="letter"), name="ch", nullable=False, key_ordinal=1)
    first = targets.create_target_dataset(schema=bizcore, name="rich", select=rich)
    next_ = targets.create_target_dataset(schema=bizcore, name="told", select=select)
    assert (sensitive(first), sensitive(next_)) == (set(), {"x"})


@pytest.mark.parametrize(
    "select",
    [
        "SELECT p.id, p.person_key AS k FROM rawcore.person p",
        "SELECT id, row_hash AS k FROM rawcore.person",
        "SELECT id, person_key AS k FROM rawcore.person_hist",
        "SELECT id, left(person_key, 8) AS k FROM current(rawcore.person_hist)",
        "SELECT o.id, o.person_key AS k FROM rawcore.orders o",
    ],
)
def test_a_hash_of_a_sensitive_key_is_sensitive(person, bizcore, select: str) -> None:
    orders = TargetDatasetFactory(name="orders")
    TargetColumnFactory(dataset=orders, name="id", data_type="bigint", nullable=False, key_ordinal=1)
    buyer = TargetColumnFactory(dataset=orders, name="buyer", pii=True)
    reference = ReferenceFactory(child=orders, parent=person)
    reference.pairs.create(child_column=buyer, parent_column=person.columns.get(name="email"))
    model = targets.create_target_dataset(schema=bizcore, name="hashes", select=select)
    assert sensitive(model) == {"k"}


@pytest.mark.parametrize("table", ["person", "person_hist"])
def test_row_hash_is_as_sensitive_as_a_column_that_was_retired(person, bizcore, table: str) -> None:
    person.columns.exclude(name="salary").update(pii=False)
    salary = person.columns.get(name="salary")
    retire_column(column=salary, expected_version=salary.version)
    select = f"SELECT id, row_hash AS k FROM rawcore.{table}"
    assert sensitive(targets.create_target_dataset(schema=bizcore, name="hashes", select=select)) == {"k"}


def test_select_that_cannot_be_resolved_is_as_sensitive_as_a_retired_column(person, bizcore) -> None:
    person.columns.update(pii=False)
    select = "SELECT id FROM rawcore.person"
    model = targets.create_target_dataset(schema=bizcore, name="numbers", select=select)
    salary = person.columns.get(name="salary")
    retire_column(column=salary, expected_version=salary.version)
    TargetDataset.objects.filter(pk=model.pk).update(select="SELECT unknown(id, nothing.x) AS id FROM rawcore.person")
    assert sensitive(TargetDataset.objects.get(pk=model.pk)) == {"id"}


@pytest.mark.parametrize(("used", "chosen"), [("person", {"ch"}), ("letter", set())])
def test_foreign_key_is_made_of_the_columns_of_the_active_reference(person, letters, bizcore, used, chosen) -> None:
    orders = TargetDatasetFactory(name="orders")
    buyer = TargetColumnFactory(dataset=orders, name="buyer", pii=True)
    number = TargetColumnFactory(dataset=orders, name="number")
    for parent, child in ((person, buyer), (letters, number)):
        reference = ReferenceFactory(child=orders, parent=parent, role_name="x", active=parent.name == used)
        reference.pairs.create(child_column=child, parent_column=parent.columns.first())
    select = "SELECT l.ch FROM rawcore.letter l JOIN rawcore.orders o ON o.x_key = l.ch"
    assert sensitive(targets.create_target_dataset(schema=bizcore, name="joined", select=select)) == chosen


def test_editor_cannot_make_a_sensitive_column_readable_by_changing_the_select(person, letters, bizcore) -> None:
    select = "SELECT a.ch FROM rawcore.person p JOIN rawcore.letter a ON a.ch = substr(p.email, 1, 1)"
    model = targets.create_target_dataset(schema=bizcore, name="initial", select=select)
    with acting_as(ensure_user(name="mia", roles=["editor"])), pytest.raises(MetadataError, match="steward"):
        targets.update_target_dataset(
            dataset=TargetDataset.objects.get(pk=model.pk),
            expected_version=TargetDataset.objects.get(pk=model.pk).version,
            select="SELECT a.ch FROM rawcore.person p CROSS JOIN rawcore.letter a",
        )


@pytest.mark.parametrize(
    ("filter_", "columns"),
    [("salary > 90000 AND id > 1", {"email", "salary"}), ("salary % 10 = id", {"email", "id", "salary"})],
)
def test_filter_that_compares_a_sensitive_column_makes_the_compared_columns_sensitive(person, filter_, columns) -> None:
    stage = TargetDatasetFactory(name="stage")
    for name in ("email", "id", "salary"):
        TargetColumnFactory(dataset=stage, name=name)
    DatasetInputFactory(dataset=person, upstream=stage)
    stage.columns.filter(name="salary").update(pii=True)
    TargetDataset.objects.filter(pk=person.pk).update(filter=filter_)
    assert sensitive(person) == columns


def test_left_join_on_a_whole_key_keeps_columns_of_its_left_side_readable(person, bizcore) -> None:
    orders = TargetDatasetFactory(name="orders")
    TargetColumnFactory(dataset=orders, name="id", data_type="bigint", nullable=False, key_ordinal=1)
    TargetColumnFactory(dataset=orders, name="buyer", pii=True)
    text = "SELECT o.id, p.id AS person FROM rawcore.orders o {} JOIN rawcore.person p ON p.email = o.buyer"
    left = targets.create_target_dataset(schema=bizcore, name="left_side", select=text.format("LEFT"))
    inner = targets.create_target_dataset(schema=bizcore, name="inner_side", select=text.format("INNER"))
    assert (sensitive(left), sensitive(inner)) == ({"person"}, {"id", "person"})


def test_the_key_of_ghost_rows_is_as_sensitive_as_the_foreign_key(letters) -> None:
    orders = TargetDatasetFactory(name="orders")
    TargetColumnFactory(dataset=orders, name="id", data_type="bigint", nullable=False, key_ordinal=1)
    buyer = TargetColumnFactory(dataset=orders, name="buyer", pii=True)
    reference = ReferenceFactory(child=orders, parent=letters, unknown_parent="ghost")
    reference.pairs.create(child_column=buyer, parent_column=letters.columns.get(name="ch"))
    assert sensitive(letters) == {"ch"}
    with acting_as(ensure_user(name="mia", roles=["editor"])), pytest.raises(MetadataError, match="steward"):
        update_reference(reference=reference, expected_version=reference.version, unknown_parent="keep")


def test_ghost_rows_of_other_datasets_are_not_read(person, letters) -> None:
    with CaptureQueriesContext(connection) as alone:
        classification(person)
    reference = ReferenceFactory(child=TargetDatasetFactory(name="orders"), parent=letters, unknown_parent="ghost")
    buyer = TargetColumnFactory(dataset=reference.child, name="buyer")
    reference.pairs.create(child_column=buyer, parent_column=letters.columns.get(name="ch"))
    with CaptureQueriesContext(connection) as among_others:
        classification(person)
    assert len(among_others) == len(alone)


GROUPED = "c{} AS (SELECT id, max(salary) AS salary FROM {} WHERE id > 1 AND salary > 2 GROUP BY id)"
DISTINCT = "c{} AS (SELECT DISTINCT * FROM {} WHERE c0 <> c1)"


def chained(step: str, table: str, queries: int = 25) -> str:
    """Return a SELECT over a chain of common table expressions."""
    steps = (step.format(place, f"c{place - 1}" if place else table) for place in range(queries))
    return f"WITH {', '.join(steps)} SELECT * FROM c{queries - 1}"


def test_a_chain_of_grouped_queries_is_classified_quickly(person, bizcore) -> None:
    model = targets.create_target_dataset(schema=bizcore, name="grouped", select=chained(GROUPED, "rawcore.person"))
    assert sensitive(model) == {"id", "salary"}
    assert len(row_inputs([model])[model.pk]) == 2


def test_a_chain_of_distinct_queries_is_classified_quickly(bizcore) -> None:
    wide = TargetDatasetFactory(name="wide")
    for place in range(10):
        TargetColumnFactory(dataset=wide, name=f"c{place}", pii=place == 0)
    model = targets.create_target_dataset(schema=bizcore, name="different", select=chained(DISTINCT, "rawcore.wide"))
    assert sensitive(model) == {f"c{place}" for place in range(10)}


def test_equal_queries_in_two_models_are_classified_quickly(person, bizcore) -> None:
    text = chained(GROUPED, "rawcore.person")
    for name in ("first", "second"):
        targets.create_target_dataset(schema=bizcore, name=name, select=f"{text} WHERE id > {len(name)}")
    select = "SELECT a.id FROM bizcore.first a WHERE a.salary > 1 UNION SELECT b.id FROM bizcore.second b"
    assert sensitive(targets.create_target_dataset(schema=bizcore, name="both", select=select)) == {"id"}
