"""Tests of the pages of models: editor, preview and guided builder."""

import html
import re

import pytest
from django.test import Client
from django.urls import reverse

from metadata.models import TargetDataset
from metadata.services.datasets.targets import create_target_dataset
from tests.factories import (
    ReferenceFactory,
    ReferencePairFactory,
    TargetColumnFactory,
    TargetDatasetFactory,
    TargetSchemaFactory,
)

pytestmark = pytest.mark.django_db

SELECT = "SELECT id, amount FROM rawcore.orders"


@pytest.fixture(autouse=True)
def orders() -> TargetDataset:
    dataset, customers = TargetDatasetFactory(name="orders"), TargetDatasetFactory(name="customer")
    TargetColumnFactory(dataset=dataset, name="id", data_type="bigint", nullable=False, key_ordinal=1)
    TargetColumnFactory(dataset=dataset, name="amount", data_type="decimal", precision=10, scale=2)
    number = TargetColumnFactory(dataset=dataset, name="buyer")
    key = TargetColumnFactory(dataset=customers, name="number", key_ordinal=1)
    TargetColumnFactory(dataset=customers, name="city")
    reference = ReferenceFactory(child=dataset, parent=customers)
    ReferencePairFactory(reference=reference, child_column=number, parent_column=key)
    return dataset


@pytest.fixture
def bizcore():
    return TargetSchemaFactory(name="bizcore")


@pytest.fixture
def sales(bizcore) -> TargetDataset:
    return create_target_dataset(schema=bizcore, name="sales", select=SELECT)


def test_a_model_is_created_from_the_page_of_schemas(operator: Client, bizcore) -> None:
    address = f"{reverse('model_create')}?schema=bizcore"
    assert address in html.unescape(operator.get(reverse("schema_list")).content.decode())
    given = {
        "schema": "bizcore",
        "name": "sales",
        "select": SELECT,
        "materialization": "table",
        "business_key": "id",
        "increment_by": "key",
    }
    created = operator.post(address, given)
    model = TargetDataset.objects.get(name="sales")
    assert created.url == reverse("dataset_page", args=[model.key])
    assert (model.select, model.increment) == (SELECT, {"by": "key"})
    page = operator.get(created.url).content.decode()
    assert reverse("model_edit", args=[model.key]) in page
    assert "Add column" not in page
    assert 'aria-readonly="true"\n          data-cell="type"' in page


def test_refused_select_is_kept_in_the_form_with_the_place_of_the_error(operator: Client, bizcore) -> None:
    given = {"schema": "bizcore", "name": "sales", "select": "SELECT price\nFROM rawcore.orders"}
    answer = operator.post(reverse("model_create"), given | {"materialization": "table"})
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 422
    assert "Line 1, column 8: the datasets in FROM have no column price" in page
    assert "SELECT price" in page


def test_a_model_is_edited(operator: Client, sales: TargetDataset) -> None:
    page = operator.get(reverse("model_edit", args=[sales.key]))
    form = page.context["form"]
    given = form.as_posted({"select": f"{SELECT} WHERE id > 1", "increment_by": "window", "increment_column": "id"})
    refused = operator.post(reverse("model_edit", args=[sales.key]), given)
    assert "Is needed with by window." in html.unescape(refused.content.decode())
    given = form.as_posted({"select": f"{SELECT} WHERE id > 1", "business_key": ["id"], "increment_by": "key"})
    saved = operator.post(reverse("model_edit", args=[sales.key]), given)
    assert saved.status_code == 302, saved.content.decode()
    sales.refresh_from_db()
    assert (sales.select, sales.increment) == (f"{SELECT} WHERE id > 1", {"by": "key"})


def test_the_preview_shows_columns_or_the_place_of_an_error(operator: Client) -> None:
    shown = operator.post(reverse("model_preview"), {"select": SELECT}).content.decode()
    assert "decimal(10,2)" in shown
    refused = html.unescape(operator.post(reverse("model_preview"), {"select": "SELECT 1 / 0 AS x"}).content.decode())
    assert "Line 1, column 12: this divides by zero." in refused


def test_model_form_sends_the_typed_select_to_the_trial_run(operator: Client, sales: TargetDataset) -> None:
    page = operator.get(reverse("model_edit", args=[sales.key])).content.decode()
    assert f'hx-post="{reverse("trial_run")}"' in page
    assert 'hx-include="#id_select"' in page


def test_model_editor_completes_datasets_functions_and_columns(operator: Client, sales: TargetDataset) -> None:
    offered = operator.get(reverse("model_completions")).json()
    assert ("rawcore.orders" in offered["names"], "count" in offered["functions"]) == (True, True)
    columns = operator.get(reverse("model_completions"), {"name": ["rawcore.orders", "no.such"]}).json()["columns"]
    assert (list(columns), dict(columns["rawcore.orders"])["id"]) == (["rawcore.orders"], "bigint")


@pytest.mark.parametrize("page", ["model_create", "model_preview", "model_builder"])
def test_models_are_for_editors(viewer: Client, page: str) -> None:
    method = viewer.get if page == "model_create" else viewer.post
    assert method(reverse(page)).status_code == 403


def build(operator: Client, **given) -> str:
    return html.unescape(operator.post(reverse("model_builder"), given).content.decode())


def test_the_builder_joins_by_declared_references(operator: Client) -> None:
    shown = build(operator, dataset=["rawcore.orders"], add="rawcore.customer")
    assert "reference orders → customer" in shown
    written = build(
        operator,
        **{
            "dataset": ["rawcore.orders", "rawcore.customer"],
            "join-1": "customer_key|orders|customer_key",
            "kind-1": "left",
            "pick": ["customer|city", "orders|amount"],
            "function-orders|amount": "sum",
            "name-orders|amount": "total",
            "where-column": ["orders|id"],
            "where-operator": [">"],
            "where-value": ["3"],
            "write": "1",
        },
    )
    text = written.partition("data-written>")[2].partition("</textarea>")[0]
    assert text == (
        "SELECT\n  sum(orders.amount) AS total,\n  customer.city AS city\n"
        "FROM rawcore.orders AS orders\n"
        "LEFT JOIN rawcore.customer AS customer ON customer.customer_key = orders.customer_key\n"
        "WHERE orders.id > 3\nGROUP BY customer.city"
    )
    assert "decimal(20,2)" in operator.post(reverse("model_preview"), {"select": text}).content.decode()
    reopened = build(operator, select=text, open="1")
    assert 'value="total"' in reopened
    assert 'value="left" selected' in reopened


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"add": "rawcore.nothing"}, "There is no dataset 'rawcore.nothing' that a model can read."),
        ({"dataset": ["rawcore.orders"], "write": "1"}, "Choose at least one column."),
        (
            {
                "dataset": ["rawcore.orders"],
                "pick": ["orders|id"],
                "where-column": ["orders|id"],
                "where-operator": ["="],
                "where-value": ["many"],
                "write": "1",
            },
            "'many' is no bigint.",
        ),
        ({"select": "SELECT 1 + 1 AS x", "open": "1"}, "The builder cannot show this SELECT."),
    ],
)
def test_builder_reports_invalid_choices_and_unsupported_selects(operator: Client, given: dict, message: str) -> None:
    assert message in build(operator, **given)


def test_undo_link_of_a_saved_select_restores_the_former_one(operator: Client, sales: TargetDataset) -> None:
    address = reverse("model_edit", args=[sales.key])
    form = operator.get(address).context["form"]
    page = operator.post(address, form.as_posted({"select": "SELECT id FROM rawcore.orders"}), follow=True)
    undo = re.search(r'href="(/changes/\d+/undo/)', page.content.decode())[1]
    preview = operator.get(undo).content.decode()
    assert "amount" in preview
    versions = re.findall(r'name="seen" value="([^"]+)"', preview)
    operator.post(undo, {"seen": versions})
    assert TargetDataset.objects.get(pk=sales.pk).select == SELECT
