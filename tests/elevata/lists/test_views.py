"""Saved filters, chosen columns and favourites on pages, and by REST."""

import csv
import io
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from elevata.accounts.actors import acting_as
from elevata.core.errors import MetadataError
from elevata.home import favourites
from elevata.lists.models import ChosenColumns, Favourite, SavedFilter
from elevata.lists.selectors import filtered_lists
from elevata.lists.services import save_filter
from loader.models import SavedQuery
from loader.schedules.services import create_schedule
from loader.services.reads.queries import delete_query
from metadata.domain.scope import Scope
from metadata.models import TargetDataset
from tests.architecture.world import World
from tests.elevata.web.forms import words
from tests.elevata.web.html import html_of, text_of
from tests.elevata.web.pages import signed_in
from tests.factories import SourceDatasetFactory, TargetDatasetFactory
from tests.loader.factories import loaded

pytestmark = pytest.mark.django_db
LIST = "dataset_list"


def post_filter(client: Client, name: str = "raw tables", query: str = "layer=raw&page=3", **fields: Any) -> Any:
    data = {"route": LIST, "name": name, "query": query, "back": "/datasets/?layer=raw"} | fields
    return client.post("/lists/filters/", data, follow=True)


def choose_columns(client: Client, *labels: str, **fields: Any) -> Any:
    data = {"route": LIST, "columns": list(labels), "back": "/datasets/"} | fields
    return client.post("/lists/columns/", data, follow=True)


# --- saved filters -----------------------------------------------------------------------------


def test_saved_filter_omits_the_page_number_and_is_listed_by_name(reader: Client):
    page = html_of(post_filter(reader))
    assert "The filter raw tables is saved." in words(page)
    assert 'href="/datasets/?layer=raw"' in page
    assert SavedFilter.objects.get().query == "layer=raw"


def test_filter_saved_under_an_existing_name_replaces_the_former(reader: Client):
    post_filter(reader)
    post_filter(reader, query="layer=stage&ordering=-name")
    assert SavedFilter.objects.get().query == "layer=stage&ordering=-name"


def test_a_shared_filter_is_offered_to_others_and_deleted_by_its_owner_only(reader: Client, operator: Client):
    post_filter(operator, name="own", query="layer=stage")
    post_filter(operator, shared="on")
    page = text_of(reader, "/datasets/")
    assert "raw tables" in page
    assert "layer=stage" not in page
    key = SavedFilter.objects.get(shared=True).key
    assert reader.post(f"/lists/filters/{key}/delete/").status_code == 404
    operator.post(f"/lists/filters/{key}/delete/")
    assert not SavedFilter.objects.filter(shared=True).exists()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": " "}, "name"),
        ({"query": "page=2&odd=1&layer="}, "query"),
        ({"route": "home"}, "route"),
        ({"name": "x" * 61}, "name"),
    ],
)
def test_invalid_filter_is_refused_with_its_field(person: User, fields: dict[str, str], field: str):
    with pytest.raises(MetadataError) as refused:
        save_filter(**({"owner": person, "route": LIST, "name": "raw", "query": "layer=raw"} | fields))
    assert refused.value.field == field


@pytest.mark.parametrize("back", ["//evil.org/", "https://evil.org/", "abc", ""])
def test_saved_filter_redirects_only_to_a_path_of_this_host(reader: Client, back: str):
    answer = reader.post("/lists/filters/", {"route": LIST, "name": "x", "query": "layer=raw", "back": back})
    assert answer.url == "/"


def test_filter_without_a_name_shows_an_error_with_the_field(reader: Client):
    assert "Nothing was saved. Name: This field is required." in words(html_of(post_filter(reader, name="")))


def test_a_shared_filter_of_a_list_that_a_user_may_not_open_is_not_offered(reader: Client, starter: User):
    SavedFilter.objects.create(owner=starter, route="delivery_list", name="failed", query="status=failed", shared=True)
    SavedFilter.objects.create(owner=starter, route=LIST, name="raw", query="layer=raw", shared=True)
    answer = reader.get("/api/v1/saved-filters/").json()
    assert [row["name"] for row in answer["results"]] == ["raw"]


def test_error_page_of_start_load_saves_filters_of_the_run_list(operator: Client):
    page = html_of(operator.post("/start-load/", {"scope": "odd"}))
    assert '<input type="hidden" name="route" value="run_list">' in page
    assert "run_start" not in filtered_lists()


def test_filtered_lists_include_the_main_lists():
    assert {"dataset_list", "dataset_changes", "source_list", "report_list", "execution_list", "run_list"} <= set(
        filtered_lists()
    )


# --- columns -----------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["reader", "editor"])
def test_chosen_columns_are_shown(role: str, request: pytest.FixtureRequest, airport: TargetDataset):
    """Check the columns as an editor, for whom the table is inside the form of bulk actions."""
    page = html_of(choose_columns(request.getfixturevalue(role), "Layer", "Owner"))
    assert ("data-selection" in page) == (role == "editor")
    table = page.partition('id="rows"')[2]
    heads = [words(head) for head in re.findall(r"<th\b[^>]*>(.*?)</th>", table, re.DOTALL)]
    assert heads == re.findall(r'<td data-label="([^"]*)"', table.partition("</tr>")[2].partition("</tr>")[0])
    assert heads == ["Dataset", "Layer", "Owner"]


def test_the_file_has_the_chosen_columns(reader: Client, airport: TargetDataset):
    choose_columns(reader, "Layer", "Owner")
    answer = reader.get("/datasets/?format=csv")
    (head, *_) = csv.reader(io.StringIO(b"".join(answer.streaming_content).decode(), newline=""))
    assert head == ["dataset", "layer", "owner"]


def test_columns_are_reset(reader: Client):
    choose_columns(reader, "Layer")
    choose_columns(reader, reset="on")
    assert not ChosenColumns.objects.exists()


def test_a_column_that_the_list_does_not_have_is_refused(reader: Client):
    assert "There is no column Odd" in words(html_of(choose_columns(reader, "Odd")))
    assert not ChosenColumns.objects.exists()


@pytest.mark.parametrize(
    "route", ["dataset_list", "schema_list", "source_list", "report_list", "execution_list", "run_list"]
)
def test_declared_columns_are_those_of_the_table(route: str, request: pytest.FixtureRequest):
    """Check the order of cells, because headings come from the declaration."""
    if route in ("report_list", "execution_list"):
        world: World = request.getfixturevalue("world")
        client = signed_in(world.author)
    else:
        loaded(request.getfixturevalue("airport"))
        client = request.getfixturevalue("reader")
    view: Any = filtered_lists()[route]
    every = [column.label for column in view.columns]
    client.post("/lists/columns/", {"route": route, "columns": every, "back": "/"})
    table = text_of(client, reverse(route)).partition('id="rows"')[2]
    heads = re.findall(r"<th\b[^>]*>(.*?)</th>", table.partition("</thead>")[0], re.DOTALL)
    labels = [words(head) for head in heads]
    # A last column has the buttons of a row.
    assert labels[: len(every)] == every
    assert labels[len(every) :] in ([], ["What to do"])
    row = table.partition("<tbody>")[2].partition("</tr>")[0]
    cells = re.findall(r'<td(?: data-label="([^"]*)")?', row)
    assert len(cells) == len(heads)
    assert [label for label in cells if label] == every


# --- favourites --------------------------------------------------------------------------------


def mark_favourite(client: Client, dataset: TargetDataset, **fields: str) -> Any:
    data = {"subject_kind": "dataset", "subject_key": str(dataset.key), "back": f"/datasets/{dataset.key}/"}
    return client.post("/favourites/", data | fields, follow=True)


def test_favourite_dataset_is_filtered_and_shown_on_the_home_page(reader: Client, airport: TargetDataset):
    assert 'aria-pressed="true"' in html_of(mark_favourite(reader, airport, on="on"))
    page = text_of(reader, "/datasets/?favourite=true").partition('id="rows"')[2]
    assert re.findall(r"rawcore\.\w+(?=</a>)", page) == ["rawcore.rc_air_airport"]
    assert "Favourites Datasets Reports rawcore.rc_air_airport" in words(text_of(reader, "/"))


def test_the_home_page_has_the_last_marked_favourite_first(reader: Client, airport: TargetDataset):
    other = TargetDatasetFactory()
    mark_favourite(reader, other, on="on")
    mark_favourite(reader, airport, on="on")
    other.save()
    names = [name for _, name in favourites(User.objects.get(pk=reader.session["_auth_user_id"]))]
    assert names == [str(airport), str(other)]


def test_a_favourite_is_removed(reader: Client, airport: TargetDataset):
    mark_favourite(reader, airport, on="on")
    mark_favourite(reader, airport)
    assert not Favourite.objects.exists()
    assert "Favourites" not in words(text_of(reader, "/"))


def test_favourites_are_the_users_own(reader: Client, operator: Client, airport: TargetDataset):
    mark_favourite(operator, airport, on="on")
    assert "rc_air_airport" not in text_of(reader, "/datasets/?favourite=true").partition('id="rows"')[2]


def test_report_list_is_filtered_by_favourite(world: World):
    client, report = signed_in(world.author), world.report()
    client.post("/favourites/", {"subject_kind": "report", "subject_key": str(report.report_id), "on": "on"})
    assert str(report.report_id) in text_of(client, "/reports/?favourite=true").partition('id="rows"')[2]
    assert str(report.report_id) not in text_of(client, "/reports/?favourite=false").partition('id="rows"')[2]


def test_sources_schedules_and_saved_queries_are_favourites_until_they_are_deleted(
    operator: Client, starter: User, airport: TargetDataset
):
    source = SourceDatasetFactory(name="flights")
    with acting_as(starter):
        schedule = create_schedule(name="nightly", cron="0 6 * * *", time_zone="UTC", scope=Scope())
    query = SavedQuery.objects.create(owner=starter, name="delays", text="SELECT 1")
    subjects = (("source", source, "/sources/"), ("schedule", schedule, "/schedules/"))
    for kind, row, address in (*subjects, ("saved_query", query, "/sql/saved/")):
        operator.post("/favourites/", {"subject_kind": kind, "subject_key": str(row.key), "on": "on"})
        answer = operator.get(address, {"favourite": "true"})
        if answer.status_code == 200:
            assert [entry.key for entry in answer.context["page"]] == [row.key]
    assert {f"Schedule {schedule.name}", str(source)} <= {name for _, name in favourites(starter)}
    with acting_as(starter):
        delete_query(saved=query)
    assert set(Favourite.objects.values_list("subject_kind", flat=True)) == {"source", "schedule"}


def test_comment_on_a_source_is_refused(reader: Client):
    body = {"subject_kind": "source", "subject_key": str(SourceDatasetFactory().key), "text": "why?"}
    answer = reader.post("/api/v1/comments/", body, content_type="application/json")
    assert answer.status_code == 400


# --- REST --------------------------------------------------------------------------------------


def test_filters_are_saved_and_deleted_by_rest(reader: Client):
    body = {"route": LIST, "name": "raw", "query": "layer=raw", "shared": True}
    response = reader.post("/api/v1/saved-filters/", body, content_type="application/json")
    assert response.status_code == 201, response.content
    address = f"/api/v1/saved-filters/{response.json()['key']}/"
    assert reader.get("/api/v1/saved-filters/?route=dataset_list").json()["count"] == 1
    assert reader.delete(address).status_code == 204


def test_favourites_are_marked_and_removed_by_rest(reader: Client, airport: TargetDataset):
    body = {"subject_kind": "dataset", "subject_key": str(airport.key)}
    response = reader.post("/api/v1/favourites/", body, content_type="application/json")
    assert response.status_code == 201, response.content
    assert reader.get("/api/v1/datasets/?favourite=true").json()["count"] == 1
    assert reader.delete(f"/api/v1/favourites/{response.json()['id']}/").status_code == 204
