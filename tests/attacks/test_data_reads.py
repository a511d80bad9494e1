"""Attacks with a role for one schema on data of another: by models, columns, inputs, checks and references."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import grant_role
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError
from metadata.models import DatasetInput, QualityCheck, Reference, TargetColumn, TargetDataset
from metadata.services.bulk_edits import apply_edits
from metadata.services.bulk_undo import undo_edits
from metadata.services.datasets.cloning import clone_dataset
from metadata.services.datasets.targets import (
    create_target_column,
    create_target_dataset,
    set_dataset_inputs,
    update_target_column,
    update_target_dataset,
)
from metadata.services.lifecycle import rename_column, retire_column, retire_dataset
from metadata.services.quality import create_check, retire_check, unretire_check, update_check
from metadata.services.references import create_reference
from tests.architecture.world import person
from tests.attacks.requests import send
from tests.factories import TargetColumnFactory, TargetDatasetFactory, TargetSchemaFactory

pytestmark = pytest.mark.django_db
SECRET = "rawcore.rc_hr_person"
SELECT = f"SELECT id, pay FROM {SECRET.upper()}"
UNKNOWN_KEYS = {"columns": ["id"], "dataset": SECRET, "other_columns": ["pay"]}


def dataset(schema: str, name: str, *columns: str) -> TargetDataset:
    layer = "rawcore" if schema.startswith("rc_") else schema
    row = TargetDatasetFactory(name=name, schema=TargetSchemaFactory(name=schema, layer=layer))
    TargetColumnFactory(dataset=row, name="id", data_type="bigint", nullable=False, key_ordinal=1)
    for place, column in enumerate(columns, start=2):
        TargetColumnFactory(dataset=row, name=column, data_type="bigint", ordinal=place)
    return row


@pytest.fixture
def secret() -> TargetDataset:
    return dataset("rawcore", "rc_hr_person", "pay")


@pytest.fixture
def own(secret: TargetDataset) -> TargetDataset:
    """Return a dataset of Ed's schema to which administrators gave the secret dataset as an input."""
    row = dataset("serving", "staff", "note")
    set_dataset_inputs(dataset=row, inputs=[secret], expected_version=row.version)
    return TargetDataset.objects.get(pk=row.pk)


@pytest.fixture
def ed(own: TargetDataset) -> User:
    """Return the user Ed, an editor of two schemas without any other role."""
    user = person("eds")
    TargetSchemaFactory(name="rc_sales", layer="rawcore")
    for schema in ("serving", "rc_sales"):
        grant_role(user=user, role=Role.EDITOR, schema=schema)
    return user


@pytest.fixture
def orders(secret: TargetDataset, own: TargetDataset) -> TargetDataset:
    """Return a dataset of Ed's other schema, read together with the secret one by models and by a plain dataset."""
    row = dataset("rc_sales", "orders", "person", "amount", "unread")
    select = f"SELECT o.*, o.amount * 2 AS twice, p.pay FROM rc_sales.orders AS o JOIN {SECRET} AS p ON o.person = p.id"
    create_target_dataset(schema=own.schema, name="paid", select=select.replace("o.*", "o.id"))
    create_target_dataset(schema=own.schema, name="all_paid", select=select)
    set_dataset_inputs(dataset=own, inputs=[secret, row], expected_version=own.version)
    own = TargetDataset.objects.get(pk=own.pk)
    update_target_dataset(dataset=own, expected_version=own.version, filter="amount > 1")
    create_target_column(dataset=own, name="double", type="bigint", expression="amount * 2")
    where = {"columns": ["person"], "dataset": SECRET, "other_columns": ["id"], "where": "amount > 1"}
    create_check(dataset=row, name="known", kind="relationship", arguments=where)
    total = {**where, "columns": ["amount"], "aggregate": "sum"}
    create_check(dataset=row, name="equal", kind="total", arguments=total)
    return row


def stored(name: str) -> TargetDataset:
    return TargetDataset.objects.get(name=name)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_a_select_over_another_schema_is_neither_described_nor_saved(ed: User, secret: TargetDataset):
    client = signed_in(ed)
    requests = {
        "datasets/describe/": {"select": SELECT},
        "datasets/": {"schema": "serving", "name": "pay", "select": SELECT, "business_key": ["id"]},
    }
    for path, body in requests.items():
        answer = send(client, "post", path, body)
        assert (answer.status_code, answer.json()["code"]) == (403, "not_permitted"), path
        assert SECRET.upper() in answer.content.decode(), path
    content = f"dataset:\n  schema: serving\n  name: pay\n  query: {SELECT}\n"
    answer = send(client, "post", "metadata/import/", {"files": [{"name": "pay.yaml", "content": content}]})
    assert "and eds may not read its data" in answer.content.decode(), answer.content
    page = client.post("/models/preview/", {"select": SELECT}).content.decode()
    assert "and eds may not read its data" in page
    assert not TargetDataset.objects.filter(name="pay").exists()


def test_editor_cannot_save_rows_that_read_data_of_another_schema(ed: User, own: TargetDataset, secret: TargetDataset):
    note = own.columns.get(name="note")
    hidden = create_check(dataset=own, name="old", kind="relationship", arguments=UNKNOWN_KEYS)
    hidden = retire_check(check=hidden, expected_version=hidden.version)
    harmless = create_check(dataset=own, name="mild", kind="not_null", arguments={"columns": ["id"]})
    other, child = dataset("serving", "other"), dataset("rc_sales", "orders", "person")
    base = dataset("serving", "base")
    set_dataset_inputs(dataset=base, inputs=[own], expected_version=base.version)
    base = TargetDataset.objects.get(pk=base.pk)
    acts = {
        "column": lambda: create_target_column(dataset=own, name="pay", type="bigint"),
        "expression": lambda: create_target_column(dataset=own, name="x", type="bigint", expression="pay + 1"),
        "changed": lambda: update_target_column(column=note, expected_version=note.version, expression="pay"),
        "filter": lambda: update_target_dataset(dataset=own, expected_version=own.version, filter="pay > 9"),
        "inputs": lambda: set_dataset_inputs(dataset=other, inputs=[secret], expected_version=other.version),
        "clone": lambda: clone_dataset(dataset=own, schema=own.schema, name="copy"),
        "relationship": lambda: create_check(dataset=own, name="a", kind="relationship", arguments=UNKNOWN_KEYS),
        "query": lambda: create_check(
            dataset=own, name="b", kind="query", arguments={"sql": f"SELECT 1 FROM {SECRET} WHERE pay > 9"}
        ),
        "restored": lambda: unretire_check(check=hidden, expected_version=hidden.version),
        "reference": lambda: create_reference(
            child=child,
            parent=secret,
            pairs=[(child.columns.get(name="person"), secret.columns.get(name="id"))],
            unknown_parent="null",
        ),
    }
    before = [model.objects.count() for model in (TargetDataset, TargetColumn, DatasetInput, QualityCheck, Reference)]
    for name, act in acts.items():
        with acting_as(ed), pytest.raises(MetadataError) as refused:
            act()
        assert (refused.value.code, SECRET in refused.value.message) == ("not_permitted", True), name
    assert before == [
        model.objects.count() for model in (TargetDataset, TargetColumn, DatasetInput, QualityCheck, Reference)
    ]
    with acting_as(ed):
        update_target_column(column=note, expected_version=note.version, description="Free text")
        create_target_column(dataset=base, name="note", type="bigint")
        update_check(check=harmless, expected_version=1, arguments={"columns": ["id"], "where": "note > 1"})


def test_reader_of_the_other_schema_saves_models_and_checks_over_it(ed: User, secret: TargetDataset):
    grant_role(user=ed, role=Role.VIEWER, schema="rawcore")
    ed = User.objects.get(pk=ed.pk)
    body = {"schema": "serving", "name": "pay", "select": SELECT, "business_key": ["id"]}
    assert send(signed_in(ed), "post", "datasets/", body).status_code == 201
    with acting_as(ed):
        create_check(
            dataset=TargetDataset.objects.get(name="pay"), name="a", kind="relationship", arguments=UNKNOWN_KEYS
        )


def test_columns_not_read_by_models_over_other_schemas_can_be_changed(orders: TargetDataset):
    """Check that an editor of one schema may change columns that a model over other schemas does not read."""
    retire_dataset(dataset=stored("all_paid"), expected_version=stored("all_paid").version)
    user = person("sales")
    grant_role(user=user, role=Role.EDITOR, schema="rc_sales")
    unread = orders.columns.get(name="unread")
    with acting_as(user):
        create_target_column(dataset=orders, name="added", type="bigint")
        unread = update_target_column(column=unread, expected_version=unread.version, type="string")
        unread = rename_column(column=unread, name="still_unread", expected_version=unread.version)
        retire_column(column=unread, expected_version=unread.version)
        amount = orders.columns.get(name="amount")
        with pytest.raises(MetadataError, match="changing .* needs the editor role"):
            rename_column(column=amount, name="total", expected_version=amount.version)


def test_rename_of_an_own_column_updates_models_expressions_filters_and_checks(ed: User, orders: TargetDataset):
    amount = orders.columns.get(name="amount")
    with acting_as(ed):
        create_target_column(dataset=orders, name="added", type="bigint")
        rename_column(column=amount, name="total", expected_version=amount.version)
        amount.refresh_from_db()
        update_target_column(column=amount, expected_version=amount.version, type="decimal(10,2)")
    assert "o.`total` * 2" in stored("paid").select
    assert {"added", "total"} <= set(stored("all_paid").columns.values_list("name", flat=True))
    assert stored("staff").filter == "`total` > 1"
    assert stored("staff").columns.get(name="double").expression == "`total` * 2"
    assert {check.arguments["where"] for check in orders.checks.all()} == {"`total` > 1"}


def test_undo_of_a_rename_restores_the_texts_of_its_readers(ed: User, orders: TargetDataset):
    amount = orders.columns.get(name="amount")
    texts = [stored("paid").select, stored("all_paid").select, stored("staff").filter]
    with acting_as(ed):
        rename_column(column=amount, name="total", expected_version=amount.version)
        apply_edits(undo_edits(ChangeLogEntry.objects.get(action="renamed", subject_key=str(amount.key))))
    assert texts == [stored("paid").select, stored("all_paid").select, stored("staff").filter]


@pytest.mark.parametrize("is_first", [True, False])
def test_edit_of_a_model_in_the_transaction_of_a_rename_is_refused(ed: User, orders: TargetDataset, is_first: bool):
    """Check a transaction that renames a column and edits the model that is rewritten by the rename."""
    model, amount = stored("paid"), orders.columns.get(name="amount")

    def edit(name: str) -> None:
        select = f"SELECT o.id, p.pay + o.{name} AS twice, p.pay FROM rc_sales.orders AS o, {SECRET} AS p"
        row = TargetDataset.objects.get(pk=model.pk)
        update_target_dataset(dataset=row, expected_version=row.version, select=select)

    def edit_and_rename() -> None:
        with writing():
            if is_first:
                edit("amount")
            rename_column(column=amount, name="total", expected_version=amount.version)
            if not is_first:
                edit("total")

    with acting_as(ed), pytest.raises(MetadataError, match="and eds may not read its data") as refused:
        edit_and_rename()
    assert refused.value.code == "not_permitted"
    assert stored("paid").select == model.select
