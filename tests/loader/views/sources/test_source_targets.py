"""Comparison of a source with its delivery, and generation of target datasets from it."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.models import ChangeLogEntry
from metadata.models import SourceDataset, System, TargetDataset
from metadata.services.datasets.targets import update_target_column
from metadata.services.sources import update_source_column
from tests.architecture.world import person as someone
from tests.elevata.web.forms import form_of, typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read
from tests.factories import SourceColumnFactory
from tests.loader.views.sources.shop import (
    ORDERS,
    choose_columns,
    choose_load_type,
    generate,
    generate_page,
    import_as,
    import_page,
    imported,
)

pytestmark = pytest.mark.django_db


# --- comparing -----------------------------------------------------------------------------------


def compare_page(client: Client, source: SourceDataset) -> str:
    return read(client, f"/sources/{source.key}/columns/?show=now")


def accept_lines(client: Client, source: SourceDataset, page: str, **over: Any) -> HttpResponse:
    fields = {name.replace("__", "-"): value for name, value in over.items()}
    return client.post(f"/sources/{source.key}/columns/", typed(page, having="lines", **fields))


def place_of(page: str, name: str) -> int:
    lines = json.loads(form_of(page, having="lines")["lines"][0])
    return next(place for place, line in enumerate(lines) if line["name"] == name)


def test_comparison_of_a_delivery_that_matches_the_contract_shows_no_differences(editor: Client, shop: System):
    page = compare_page(editor, imported(editor))
    assert "Nothing differs" in page
    assert "4 columns matching the contract" in words(page)


def test_comparison_shows_all_differences_and_takes_only_the_selected_ones(editor: Client, shop: System, landing: Path):
    source = imported(editor)
    (landing / "orders.csv").write_text("Order No,customer,amount,vip\nA1,x7,1.50,true\nA2,x8,2.50,false\n")
    page = compare_page(editor, source)
    text = words(page)
    assert "2 sampled values do not fit integer, 'x7' for one" in text
    assert "is in the contract, but not in the delivery" in text
    customer = place_of(page, "customer")
    answer = accept_lines(editor, source, page, **{f"c{customer}-take": "on"})
    assert answer.url == f"/sources/{source.key}/generate/"
    columns = {c.name: (str(c.type), c.active) for c in source.columns.all()}
    assert columns == {
        "Order No": ("string", True),
        "customer": ("string", True),
        "amount": ("decimal(18,2)", True),
        "ordered at": ("date", True),
        "vip": ("boolean", True),
    }


def test_missing_column_can_be_retired_and_restored(editor: Client, shop: System, landing: Path):
    source = imported(editor)
    (landing / "orders.csv").write_text("Order No,customer,amount\nA1,7,1.50\nA2,8,2.50\n")
    page = compare_page(editor, source)
    accept_lines(editor, source, page, **{f"c{place_of(page, 'ordered at')}-take": "on"})
    assert source.columns.get(name="ordered at").active is False
    (landing / "orders.csv").write_text(ORDERS)
    page = compare_page(editor, source)
    assert "is retired in the contract" in words(page)
    accept_lines(editor, source, page)
    assert source.columns.get(name="ordered at").active is True


def test_comparison_refuses_a_column_changed_by_another_user_until_resubmitted(
    editor: Client, shop: System, landing: Path
):
    source = imported(editor)
    (landing / "orders.csv").write_text(ORDERS.replace(",7,", ",x,"))
    page = compare_page(editor, source)
    column = source.columns.get(name="customer")
    with acting_as(someone("bob", Role.EDITOR)):
        update_source_column(source_column=column, expected_version=column.version, type="bigint")
    place = place_of(page, "customer")
    answer = accept_lines(editor, source, page, **{f"c{place}-take": "on", f"c{place}-type": "string(9)"})
    text = html_of(answer)
    assert answer.status_code == 409
    assert "changed by another user: bigint" in words(text)
    assert form_of(text, having="lines")[f"c{place}-type"] == ["string(9)"]
    assert str(source.columns.get(name="customer").type) == "bigint"
    editor.post(f"/sources/{source.key}/columns/", form_of(text, having="lines"))
    assert str(source.columns.get(name="customer").type) == "string(9)"


# --- generating ----------------------------------------------------------------------------------


def test_preview_lists_the_targets_without_creating_them(editor: Client, shop: System):
    load_type = choose_columns(editor, import_page(editor)).url
    text = words(read(editor, choose_load_type(editor, load_type).url))
    for name in ("raw.raw_shop_orders", "stage.stg_shop_orders", "rawcore.rc_shop_orders", "rc_shop_orders_hist"):
        assert name in text
    assert "order_no string" in text
    assert not TargetDataset.objects.exists()


def test_target_name_is_used_in_stage_but_not_in_raw(editor: Client, shop: System):
    import_as(editor, import_page(editor), c0__target_name="order_number")
    generate(editor, SourceDataset.objects.get())
    for name, first in (("raw_shop_orders", "Order No"), ("stg_shop_orders", "order_number")):
        assert TargetDataset.objects.get(name=name).columns.first().name == first


def test_generation_creates_the_targets_once(editor: Client, shop: System):
    source = imported(editor)
    assert generate(editor, source).url == f"/sources/{source.key}/"
    assert sorted(source.generated.values_list("name", flat=True)) == [
        "raw_shop_orders",
        "rc_shop_orders",
        "rc_shop_orders_hist",
        "stg_shop_orders",
    ]
    entries = ChangeLogEntry.objects.count()
    assert "Nothing to do." in words(generate_page(editor, source))
    assert ChangeLogEntry.objects.count() == entries


@pytest.fixture
def edited_orders(editor: Client, shop: System) -> SourceDataset:
    """Return orders whose amount a user made a float in rawcore, with a description of their own."""
    source = imported(editor)
    generate(editor, source)
    column = TargetDataset.objects.get(name="rc_shop_orders").columns.get(name="amount")
    update_target_column(column=column, expected_version=column.version, type="float", description="Net")
    return source


def amount() -> Any:
    return TargetDataset.objects.get(name="rc_shop_orders").columns.get(name="amount")


def test_generation_shows_user_edits_as_differences_and_keeps_them(editor: Client, edited_orders: SourceDataset):
    text = words(generate_page(editor, edited_orders))
    assert "1 difference from the source" in text
    generate(editor, edited_orders)
    assert (str(amount().type), amount().description) == ("float", "Net")


def test_generation_applies_the_source_type_to_an_accepted_dataset(editor: Client, edited_orders: SourceDataset):
    generate(editor, edited_orders, accept=str(TargetDataset.objects.get(name="rc_shop_orders").key))
    assert (str(amount().type), amount().description) == ("decimal(18,2)", "Net")


def test_generation_from_an_outdated_preview_is_refused(editor: Client, edited_orders: SourceDataset):
    page = generate_page(editor, edited_orders)
    column = edited_orders.columns.get(name="customer")
    update_source_column(source_column=column, expected_version=column.version, type="bigint")
    accept = str(TargetDataset.objects.get(name="rc_shop_orders").key)
    answer = editor.post(f"/sources/{edited_orders.key}/generate/", typed(page, having="fingerprint", accept=accept))
    assert answer.status_code == 409
    assert "Reload the page" in words(html_of(answer))
    assert str(amount().type) == "float"


def test_generation_page_of_a_source_without_columns_asks_for_an_import(editor: Client, shop: System):
    source = imported(editor)
    source.columns.update(active=False)
    text = generate_page(editor, source)
    assert "Import its columns first." in text


# --- a whole system ------------------------------------------------------------------------------


def test_generation_of_a_system_creates_the_previewed_columns(editor: Client, edited_orders: SourceDataset):
    SourceColumnFactory(dataset=edited_orders, name="later")
    address = f"/systems/{edited_orders.system.short_name}/generate/"
    page = read(editor, address)
    assert "later string" in page
    answer = editor.post(address, typed(page, having="fingerprint"))
    assert answer.url == f"/systems/{edited_orders.system.short_name}/"
    assert TargetDataset.objects.filter(columns__name="later").count() == 3


def test_generation_of_a_system_from_an_outdated_preview_is_refused(editor: Client, edited_orders: SourceDataset):
    SourceColumnFactory(dataset=edited_orders, name="later")
    address = f"/systems/{edited_orders.system.short_name}/generate/"
    page = read(editor, address)
    SourceColumnFactory(dataset=edited_orders, name="latest")
    answer = editor.post(address, typed(page, having="fingerprint"))
    assert answer.status_code == 409
    assert not TargetDataset.objects.filter(columns__name="later").exists()
