"""PostgreSQL as a source: connection, listing, sampling, import."""

from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from django.conf import settings as configured
from django.test import Client

from elevata.accounts.roles import Role
from loader.contract.refusals import Refusal
from loader.sources.postgresql import count_rows, list_postgresql, reach_postgresql, sample_postgresql
from loader.sources.results import Sample
from metadata.models import SourceDataset, System, TargetDataset
from tests.architecture.world import person as someone
from tests.elevata.web.forms import typed, words
from tests.elevata.web.pages import read
from tests.factories import SourceDatasetFactory
from tests.loader.views.sources.shop import choose_load_type

pytestmark = [pytest.mark.django_db, pytest.mark.services]


def types(sample: Sample) -> dict[str, str]:
    return {column.name: str(column.type) for column in sample.columns}


def test_connection_facts_show_server_and_user(database: System):
    facts = dict(reach_postgresql(database).facts)
    assert facts["Signed in as"] == urlsplit(database.location).username
    assert facts["Server"].startswith("PostgreSQL ")


def test_tables_are_listed_with_sizes_and_estimates_and_found_by_name(database: System):
    items = {item.location: item for item in list_postgresql(database, search="SHOP.").items}
    assert sorted(items) == ["shop.expensive", "shop.orders", 'shop.weird "name%']
    assert items["shop.orders"].rows == 30
    assert items["shop.orders"].size > 0
    assert (items["shop.expensive"].rows, items["shop.expensive"].note) == (None, "view")
    assert list_postgresql(database, search="shop.%").total == 0


def test_the_comment_of_a_table_is_listed(database: System):
    (orders,) = list_postgresql(database, search="shop.orders").items
    assert orders.description == "What was sold"


@pytest.mark.parametrize(
    ("options", "counted", "rows"),
    [
        ({}, {"at_most": 100}, 30),
        ({}, {"at_most": 7}, 7),
        ({"filter": "order_no <= 4"}, {"at_most": 100}, 4),
        ({"filter": "t.order_no <= 4"}, {"at_most": 100}, 4),
        ({"query": "SELECT * FROM shop.expensive"}, {"at_most": 100}, 24),
        ({}, {"at_most": 100, "newer": "ordered_at", "since": datetime(2000, 1, 1, tzinfo=UTC)}, 30),
        ({}, {"at_most": 100, "newer": "ordered_at", "since": datetime(2100, 1, 1, tzinfo=UTC)}, 0),
        ({}, {"at_most": 100, "newer": "ordered_at", "since": None}, 30),
    ],
)
def test_count_rows_observes_maximum_filter_query_and_mark(database: System, options: dict, counted: dict, rows: int):
    source = SourceDatasetFactory(system=database, location="shop.orders", format="table", options=options)
    assert count_rows(source, **counted) == rows


def test_rows_of_a_missing_table_are_refused(database: System):
    source = SourceDatasetFactory(system=database, location="shop.gone", format="table")
    with pytest.raises(Refusal) as refused:
        count_rows(source, at_most=1)
    assert refused.value.code == "MISSING_TABLE"


def test_tables_come_a_page_at_a_time(database: System):
    listing = list_postgresql(database, search="shop.", start=1, count=1)
    assert ([item.location for item in listing.items], listing.total) == (["shop.orders"], 3)


def test_sample_takes_columns_from_the_catalog_and_counts_from_the_first_rows(database: System):
    sample = sample_postgresql(database, "shop.orders")
    assert types(sample) == {
        "order_no": "integer",
        "Customer Name": "string(40)",
        "amount": "decimal(10,2)",
        "free": "decimal(38,10)",
        "ordered_at": "timestamp",
        "tags": "json",
        "mood": "string",
        "id": "uuid",
        "note": "string",
    }
    by_name = {column.name: column for column in sample.columns}
    assert (by_name["order_no"].key_ordinal, by_name["order_no"].key_evidence) == (1, "the table's primary key")
    assert by_name["Customer Name"].nullable is False
    assert (by_name["note"].nulls, by_name["note"].rows) == (30, 30)
    assert by_name["amount"].description == "Without tax"
    assert by_name["amount"].evidence == "the database says numeric(10,2)"


def test_table_name_with_quotes_is_sampled(database: System):
    assert types(sample_postgresql(database, 'shop.weird "name%')) == {"x": "integer"}


@pytest.mark.parametrize("location", ["shop.gone", "shop.orders; DROP TABLE shop.orders", ""])
def test_sample_of_a_missing_table_is_refused(database: System, location: str):
    with pytest.raises(Refusal) as refused:
        sample_postgresql(database, location)
    assert refused.value.code == "MISSING_TABLE"


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("postgresql://nobody_here@127.0.0.1:{port}/postgres", "SIGN_IN_REFUSED"),
        ("postgresql://{user}@127.0.0.1:{port}/no_such_database", "NO_SUCH_DATABASE"),
        ("postgresql://{user}@127.0.0.1:1/postgres", "NOT_REACHED"),
        ("postgresql://{user}@localhost:{port}/postgres", "HOST_NOT_ALLOWED"),
        ("sqlserver://{user}@127.0.0.1:{port}/shop", "NOT_FROM_HERE"),
    ],
)
def test_refused_connection_states_its_reason(database: System, location: str, code: str):
    place = configured.DATABASES["default"]
    database.location = location.format(port=place["PORT"], user=place["USER"])
    with pytest.raises(Refusal) as refused:
        reach_postgresql(database)
    assert refused.value.code == code


def test_refusal_of_a_sign_in_does_not_contain_the_password(database: System, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ELEVATA_SOURCE_ERP", "hunter2")
    database.location = database.location.replace("elevata@", "nobody_here@")
    database.secret = "ELEVATA_SOURCE_ERP"
    with pytest.raises(Refusal) as refused:
        reach_postgresql(database)
    assert "hunter2" not in json_of(refused.value)


def json_of(refusal: Refusal) -> str:
    return str(refusal.as_json())


def test_a_table_is_imported_and_its_targets_generated_in_the_browser(database: System):
    client = Client()
    client.force_login(someone("mia", Role.EDITOR))
    page = read(client, "/systems/erp/import/?location=shop.orders&show=now")
    assert "the database says character varying(40)" in words(page)
    load_type = client.post("/systems/erp/import/", typed(page, having="lines")).url
    client.post(choose_load_type(client, load_type).url, {"create_only": "yes"})
    source = SourceDataset.objects.get()
    assert (source.format, source.location, source.short_name) == ("table", "shop.orders", "shop_orders")
    columns = TargetDataset.objects.get(name="rc_erp_shop_orders").columns
    assert columns.get(name="customer_name").type.length == 40
    page = read(client, f"/sources/{source.key}/columns/?show=now")
    assert "Nothing differs" in page
