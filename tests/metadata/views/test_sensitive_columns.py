"""Tests of the list of sensitive columns: classes, owners, copies, readers and last reads, filters, file and API."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user, grant_role
from elevata.web.search import search
from loader.services.reads.read_permissions import record_sensitive_read
from metadata.models import SourceColumn, TargetColumn, TargetDataset, TargetSchema
from metadata.selectors import sensitive_details
from metadata.selectors.classification import classifications
from metadata.selectors.sensitive_columns import target_columns
from metadata.selectors.sensitive_counts import counts_by_schema
from metadata.selectors.sensitive_details import SensitiveColumn, detailed
from metadata.services.datasets.targets import create_target_dataset, update_target_column
from metadata.services.lifecycle import rename_column, rename_dataset
from metadata.services.sources import update_source_column
from tests.elevata.web.pages import downloaded, read, signed_in, words
from tests.factories import DatasetInputFactory, TargetColumnFactory, TargetDatasetFactory, TargetSchemaFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def steward(airport: TargetDataset) -> User:
    """Classify a column of the source and one of the table; return a steward of everything."""
    cache.clear()
    source = SourceColumn.objects.get(name="name")
    update_source_column(source_column=source, expected_version=source.version, pii=True, owner="Airport desk")
    column = airport.columns.get(name="elevation")
    update_target_column(column=column, expected_version=column.version, sensitivity="restricted")
    return ensure_user(name="stella", roles=[Role.STEWARD])


def row(user: User, name: str, schema: str = "rawcore") -> SensitiveColumn:
    (column,) = target_columns(user).filter(name=name, dataset__schema__name=schema)
    return detailed([column])[0]


def test_listed_columns_are_those_that_readers_see_masked(steward: User):
    datasets = TargetDataset.objects.filter(history_of=None).values_list("pk", flat=True)
    masked = {key for classified in classifications(list(datasets)).values() for key in classified.sensitive}
    assert {str(column.key) for column in target_columns(steward)} == masked
    assert counts_by_schema()["rawcore"].columns == 2
    assert counts_by_schema()["rawcore"].personal == 1


@pytest.fixture
def chosen(steward: User, airport: TargetDataset) -> list[str]:
    """Create models and a dataset with rows chosen by sensitive columns; return names of their sensitive columns."""
    bizcore = TargetSchema.objects.filter(name="bizcore").first() or TargetSchemaFactory(name="bizcore")
    models = {
        "same": "SELECT icao FROM rawcore.rc_air_airport WHERE name = icao",
        "high": "SELECT icao FROM rawcore.rc_air_airport WHERE elevation > 5",
        "many": "SELECT count(*) AS number FROM bizcore.high",
        "both": "SELECT h.icao FROM bizcore.same s JOIN bizcore.high h ON h.icao > s.icao",
    }
    for name, select in models.items():
        create_target_dataset(schema=bizcore, name=name, select=select)
    filtered = TargetDatasetFactory(name="filtered", schema=bizcore, filter="elevation % 10 = icao")
    DatasetInputFactory(dataset=filtered, upstream=airport)
    TargetColumnFactory(dataset=filtered, name="icao")
    return ["both.icao", "filtered.icao", "many.number", "same.icao"]


def test_sensitive_columns_list_contains_columns_of_models_selected_by_sensitive_values(
    steward: User, chosen: list[str]
):
    test_listed_columns_are_those_that_readers_see_masked(steward)
    listed = target_columns(steward).filter(dataset__schema__name="bizcore")
    assert sorted(f"{column.dataset.name}.{column.name}" for column in listed) == chosen
    assert counts_by_schema()["bizcore"].columns == 4
    (filtered,) = [column for column in listed if column.dataset.name == "filtered"]
    assert detailed([filtered])[0].classes == ("restricted", "inherited")
    assert row(steward, "number", "bizcore").classes == ("restricted", "inherited")
    copied_to = {name: row(steward, name).copied_to[1:] for name in ("name", "elevation")}
    assert copied_to == {
        "name": ["bizcore.both", "bizcore.same"],
        "elevation": ["bizcore.filtered", "bizcore.many"],
    }


def test_column_has_the_classes_of_its_inputs(steward: User):
    assert row(steward, "name").classes == ("personal", "inherited")
    assert row(steward, "elevation").classes == ("restricted",)


def test_copies_of_a_sensitive_column_are_its_downstream_datasets(steward: User):
    assert row(steward, "name", "raw").copied_to == [
        "stage.stg_air_airport",
        "rawcore.rc_air_airport",
        "rawcore.rc_air_airport_hist",
    ]


def test_readers_of_a_sensitive_column_are_the_stewards_of_its_place(steward: User):
    grant_role(user=ensure_user(name="gina", roles=[]), role="steward", schema="rawcore")
    ensure_user(name="mia", roles=[Role.EDITOR])
    assert row(steward, "name").readers == ("gina", "stella")
    assert row(steward, "name", "raw").readers == ("stella",)


def recorded(user: User, dataset: TargetDataset, *columns: str) -> None:
    with acting_as(user):
        record_sensitive_read(
            name=str(dataset), key=str(dataset.key), kind="sample", columns=list(columns), found_by=[], rows=1
        )


def test_the_last_read_of_a_column_is_found_by_former_names(steward: User, airport: TargetDataset):
    recorded(steward, airport, "name", "elevation")
    recorded(ensure_user(name="gina", roles=[]), airport.history, "NAME")
    rename_column(column=(old := airport.columns.get(name="name")), name="title", expected_version=old.version)
    airport.refresh_from_db()
    rename_dataset(dataset=airport, name="rc_place", expected_version=airport.version)
    assert row(steward, "title").last_read.actor == "gina"
    assert row(steward, "elevation").last_read.actor == "stella"
    assert row(steward, "name", "raw").last_read is None


def test_page_names_the_limit_of_searched_reads(steward: User, airport: TargetDataset, monkeypatch: pytest.MonkeyPatch):
    recorded(steward, airport, "name")
    recorded(steward, airport, "elevation")
    monkeypatch.setattr(sensitive_details, "READS_SEARCHED", 1)
    assert row(steward, "elevation").searched
    assert not row(steward, "name").searched
    assert "not in the last 1 reads" in words(read(signed_in(steward), "/sensitive-data/?schema=rawcore"))


def test_the_list_is_filtered_and_downloaded(steward: User):
    client = signed_in(steward)

    def names(query: str) -> list[str]:
        return [f"{each['dataset']}.{each['column']}" for each in downloaded(client, f"/sensitive-data/?{query}")]

    assert names("format=csv&classification=restricted") == ["rawcore.rc_air_airport.elevation"]
    assert len(names("format=csv&classification=personal")) == 3
    assert len(names("format=csv&classification=inherited&layer=raw")) == 1
    assert names("format=csv&schema=rawcore&q=elev") == ["rawcore.rc_air_airport.elevation"]
    (source,) = downloaded(client, "/sensitive-data/sources/?format=csv&owner=desk&classification=personal")
    assert (source["column"], source["owner"], source["readers"], source["last read"]) == (
        "name",
        "Airport desk",
        "stella",
        "",
    )


def test_a_steward_of_a_schema_sees_its_columns_only(steward: User):
    gina = ensure_user(name="gina", roles=[])
    grant_role(user=gina, role="steward", schema="rawcore")
    assert {column.dataset.schema.name for column in target_columns(gina)} == {"rawcore"}
    html = read(signed_in(gina), "/sensitive-data/sources/")
    assert "Sensitive columns of sources are shown to administrators and stewards of the environment." in html
    assert signed_in(ensure_user(name="vera", roles=[Role.VIEWER])).get("/sensitive-data/").status_code == 403


@pytest.mark.parametrize("word", ["pii", "personal", "Confidential"])
def test_search_finds_the_sensitive_data_page_for_stewards_only(steward: User, word: str):
    results, _ = search(word, user=steward, limit=5)
    assert results[0].page == "/sensitive-data/"
    viewer = ensure_user(name="vera", roles=[Role.VIEWER])
    pages = {result.page for result in search(word, user=viewer, limit=5)[0] if result.kind == "page"}
    assert pages <= {"/columns/?pii=true"}


def test_api_returns_sensitive_columns_with_classes_readers_and_copies(steward: User, airport: TargetDataset):
    recorded(steward, airport, "name")

    def got(path: str) -> Any:
        answer = signed_in(steward).get(f"/api/v1/{path}")
        assert answer.status_code == 200, answer.content
        return answer.json()

    (column,) = got("sensitive-columns/?schema=rawcore&classification=personal")["results"]
    assert column["key"] == str(TargetColumn.objects.get(dataset=airport, name="name").key)
    assert (column["classes"], column["readers"], column["last_read"]["actor"]) == (
        ["personal", "inherited"],
        ["stella"],
        "stella",
    )
    assert [copy["dataset"] for copy in column["copies"]] == ["rawcore.rc_air_airport_hist"]
    assert got(f"sensitive-columns/{column['key']}/") == column
    assert got("sensitive-source-columns/?system=air")["results"][0]["owner"] == "Airport desk"


def test_rest_and_page_list_columns_in_the_order_of_their_owners(steward: User, airport: TargetDataset):
    client, owned = signed_in(steward), airport.columns.get(name="elevation")
    update_target_column(column=owned, expected_version=owned.version, owner="Tower")
    for order, place in (("owner", -1), ("-owner", 0)):
        names = [row["column"] for row in downloaded(client, f"/sensitive-data/?format=csv&ordering={order}")]
        assert names[place] == "elevation"
        followed, address = [], f"/api/v1/sensitive-columns/?cursor=&page_size=1&ordering={order}"
        while address:
            page = client.get(address).json()
            followed += [row["name"] for row in page["results"]]
            address = page["next"]
        assert followed == names
