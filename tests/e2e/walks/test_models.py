"""Tests of writing a model in Chromium: by the builder, then as SQL with a link to the position of an error."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from elevata.accounts.roles import Role
from metadata.models import TargetDataset
from tests.architecture.world import person
from tests.e2e.walks.conftest import Walker, at_both_widths
from tests.factories import TargetColumnFactory, TargetDatasetFactory, TargetSchemaFactory
from tests.services.axe import AXE, accessible_faults

pytestmark = [pytest.mark.browser, pytest.mark.services]


@pytest.fixture
def edda(site: str, width: str, walkers: Callable[..., Walker]) -> Walker:
    """Return a walker of an editor, beside a dataset to read."""
    TargetSchemaFactory(name="bizcore")
    orders = TargetDatasetFactory(name="orders")
    TargetColumnFactory(dataset=orders, name="id", data_type="bigint", nullable=False, key_ordinal=1)
    TargetColumnFactory(dataset=orders, name="amount", data_type="decimal", precision=10, scale=2)
    walker = walkers(person("edda", Role.EDITOR), width)
    walker.context.add_init_script(path=AXE)
    return walker


@at_both_widths
def test_model_is_built_corrected_as_sql_and_created(edda: Walker) -> None:
    page = edda.go("/models/new/?schema=bizcore")
    preview, text = page.locator("#model-preview"), page.locator("#id_select")
    expect(preview).to_contain_text("Columns and types appear here.")
    edda.use("button", "Open builder")
    edda.fill("Add a dataset", "rawcore.orders")
    edda.use("button", "Add or update")
    page.get_by_role("checkbox", name="id", exact=True).check()
    page.get_by_role("checkbox", name="amount", exact=True).check()
    edda.use("button", "Write SELECT")
    expect(text).to_have_value("SELECT\n  orders.id AS id,\n  orders.amount AS amount\nFROM rawcore.orders AS orders")
    expect(preview).to_contain_text("decimal(10,2)")
    assert accessible_faults(page) == []
    edda.picture("model-builder")
    text.fill("SELECT id,\n  price\nFROM rawcore.orders")
    expect(preview).to_contain_text("Line 2, column 3: the datasets in FROM have no column price.")
    edda.use("button", "Go to the place")
    edda.type("P")
    expect(text).to_have_value("SELECT id,\n  Price\nFROM rawcore.orders")
    text.fill("SELECT id, amount * 2 AS twice\nFROM rawcore.orders")
    expect(preview).to_contain_text("decimal(12,2)")
    edda.fill("Name", "sales")
    edda.use("button", "Create model")
    expect(page.get_by_role("heading", level=1, name="sales")).to_be_visible()
    assert accessible_faults(page) == []
    edda.picture("model-page")
    assert TargetDataset.objects.get(name="sales").select == "SELECT id, amount * 2 AS twice\nFROM rawcore.orders"
