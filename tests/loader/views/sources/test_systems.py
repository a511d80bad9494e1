"""Registration of a system, connection test, discovery of its contents, and permissions."""

from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.models import ChangeLogEntry
from metadata.models import System
from metadata.services.sources import update_system
from tests.architecture.world import person as someone
from tests.elevata.web.forms import action_of, form_of, typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import downloaded, read
from tests.factories import SourceDatasetFactory
from tests.loader.views.sources.shop import HTMX, imported

pytestmark = pytest.mark.django_db


# --- registering ---------------------------------------------------------------------------------


def register(client: Client, kind: str = "files", **over: Any) -> HttpResponse:
    address = f"/add-source/{kind}/"
    page = read(client, address)
    return client.post(address, typed(page, having="short_name", name="Shop", short_name="shop", **over))


def test_a_system_is_registered_by_its_form(editor: Client, landing: Path):
    answer = register(editor, location=str(landing))
    assert answer.url == "/systems/shop/discover/"
    assert System.objects.get().location == str(landing)
    assert ChangeLogEntry.objects.get(subject_kind="system").actor == "mia"


def test_the_enter_key_registers_a_system(editor: Client):
    """Check the first button of the form, which the Enter key presses."""
    form = read(editor, "/add-source/jdbc/").partition('id="system-form"')[2]
    assert words(form.partition("</button>")[0].partition("<button")[2]).endswith("Register system")


@pytest.mark.parametrize(
    "location", ["/etc", "{{ data_dir }}", "{{ data_dir }}/../..", "s3a://bucket/in", "file:///etc"]
)
def test_a_folder_outside_of_the_allowed_ones_is_refused(editor: Client, landing: Path, location: str):
    answer = register(editor, location=location)
    page = html_of(answer)
    assert answer.status_code == 422
    assert 'id="id_location_error"' in page
    assert form_of(page, having="short_name")["location"] == [location]
    assert not System.objects.exists()


def test_a_password_in_the_location_is_refused_and_not_sent_back(editor: Client, landing: Path):
    answer = register(editor, kind="jdbc", location="postgresql://reader:s3cret@db/erp")
    page = html_of(answer)
    assert answer.status_code == 422
    assert "Holds a password" in words(page)
    assert "s3cret" not in page


@pytest.mark.parametrize("secret", ["ELEVATA_SECRET_KEY", "DATABASE_URL", "hunter2", "ELEVATA_SOURCE_ROOTS"])
def test_secret_field_refuses_other_environment_variables(editor: Client, landing: Path, secret: str):
    answer = register(editor, kind="jdbc", location="postgresql://reader@db/erp", secret=secret)
    assert answer.status_code == 422
    assert 'id="id_secret_error"' in html_of(answer)


def test_a_system_is_edited(editor: Client, shop: System):
    page = read(editor, "/systems/shop/edit/")
    assert editor.post("/systems/shop/edit/", typed(page, owner="Team Shop")).url == "/systems/shop/"
    assert System.objects.get().owner == "Team Shop"


def test_concurrent_edit_of_a_system_shows_both_versions(editor: Client, shop: System):
    page = read(editor, "/systems/shop/edit/")
    with acting_as(someone("bob", Role.EDITOR)):
        update_system(system=shop, expected_version=shop.version, owner="Bob")
    answer = editor.post("/systems/shop/edit/", typed(page, owner="Mia"))
    assert answer.status_code == 409
    assert "bob changed shop" in words(html_of(answer))
    text = html_of(answer)
    editor.post(action_of(text, having="version"), form_of(text, having="version"))
    assert System.objects.get().owner == "Mia"


def test_a_system_cannot_be_moved_out_of_the_allowed_folders(editor: Client, shop: System):
    page = read(editor, "/systems/shop/edit/")
    assert editor.post("/systems/shop/edit/", typed(page, location="/")).status_code == 422


@pytest.mark.parametrize("places", [{"location": "data/x.csv"}, {"intake": {"key_list": "data/x.csv"}}])
def test_system_cannot_be_moved_if_its_sources_would_leave_the_allowed_folders(
    editor: Client, shop: System, landing: Path, settings: Any, places: dict[str, Any]
):
    settings.DATA_DIR = landing / "product" / "data"
    SourceDatasetFactory(system=shop, name="orders", **places)
    page = read(editor, "/systems/shop/edit/")
    answer = editor.post("/systems/shop/edit/", typed(page, location=str(landing / "product")))
    assert "Data/x.csv is outside the folders" in words(html_of(answer))
    assert editor.post("/systems/shop/edit/", typed(page, location=str(landing / "other"))).status_code == 302


def test_edit_of_another_field_keeps_a_yaml_location_outside_the_allowed_folders(editor: Client, shop: System):
    System.objects.update(location="s3a://bucket/in")
    page = read(editor, "/systems/shop/edit/")
    assert editor.post("/systems/shop/edit/", typed(page, owner="Team Shop")).status_code == 302


# --- testing the connection ----------------------------------------------------------------------


def test_connection_test_of_a_folder_lists_its_files(editor: Client, shop: System):
    answer = editor.post("/systems/shop/test/", headers=HTMX)
    text = words(html_of(answer))
    assert "The folder is there and can be read." in text
    assert "orders.csv" in text
    assert "<html" not in html_of(answer)


def test_connection_test_without_scripts_returns_the_whole_page(editor: Client, shop: System):
    text = html_of(editor.post("/systems/shop/test/"))
    assert "<html" in text
    assert "The folder is there" in text


def test_a_missing_folder_is_named(editor: Client, shop: System, landing: Path):
    System.objects.update(location=str(landing / "gone"))
    text = words(html_of(editor.post("/systems/shop/test/")))
    assert "gone is not there" in text
    assert "Make the folder" in text


def test_connection_test_refuses_a_host_that_is_not_allowed(editor: Client, shop: System):
    System.objects.update(kind="jdbc", location="postgresql://reader@169.254.169.254/erp")
    text = words(html_of(editor.post("/systems/shop/test/")))
    assert "no host that may be asked from here" in text
    assert "ELEVATA_SOURCE_HOSTS" in text


def test_a_secret_that_is_not_set_is_named(editor: Client, shop: System, settings: Any):
    settings.SOURCE_HOSTS = ["localhost"]
    System.objects.update(
        kind="jdbc", location="postgresql://reader@localhost/erp", secret="ELEVATA_SOURCE_ERP_PASSWORD"
    )
    text = words(html_of(editor.post("/systems/shop/test/")))
    assert "ELEVATA_SOURCE_ERP_PASSWORD is not set" in text


def test_refused_connection_names_host_and_port(editor: Client, shop: System, settings: Any):
    settings.SOURCE_HOSTS = ["127.0.0.1"]
    System.objects.update(kind="jdbc", location="postgresql://reader@127.0.0.1:1/erp")
    text = words(html_of(editor.post("/systems/shop/test/")))
    assert "127.0.0.1 refuses connections on port 1" in text


# --- discovery -----------------------------------------------------------------------------------


def test_discover_page_loads_its_results_separately(editor: Client, shop: System):
    assert "orders.csv" not in read(editor, "/systems/shop/discover/")
    part = html_of(editor.get("/systems/shop/discover/", headers=HTMX))
    assert "orders.csv" in part
    assert "<html" not in part


def test_files_are_searched_by_name(editor: Client, shop: System, landing: Path):
    (landing / "customers.csv").write_text("id\n1\n")
    part = words(read(editor, "/systems/shop/discover/?show=now&q=CUST"))
    assert "customers.csv" in part
    assert "orders.csv" not in part


def test_search_without_a_match_shows_a_message(editor: Client, shop: System):
    assert "has “xyz” in its name" in words(read(editor, "/systems/shop/discover/?show=now&q=xyz"))


def test_found_files_are_paged(editor: Client, shop: System, landing: Path):
    for number in range(60):
        (landing / f"day_{number:02}.csv").write_text("id\n1\n")
    assert "1–50 of 61" in words(read(editor, "/systems/shop/discover/?show=now"))
    assert "51–61 of 61" in words(read(editor, "/systems/shop/discover/?show=now&page=2"))


def test_described_file_links_its_comparison_instead_of_an_import(editor: Client, shop: System):
    source = imported(editor)
    part = read(editor, "/systems/shop/discover/?show=now")
    assert reverse("source_columns", args=[source.key]) in part
    assert "/systems/shop/import/?location=orders.csv" not in part


# --- permissions -----------------------------------------------------------------------------------


def test_sources_of_a_system_are_downloaded(viewer: Client, shop: System):
    SourceDatasetFactory(system=shop, name="orders", location="orders.csv")
    SourceDatasetFactory(name="elsewhere")
    (row,) = downloaded(viewer, "/systems/shop/?format=csv")
    assert (row["source dataset"], row["location"], row["columns"]) == ("shop.orders", "orders.csv", "0")


def test_viewer_sees_systems_and_the_reason_of_disabled_buttons(viewer: Client, shop: System):
    page = read(viewer, "/systems/shop/")
    assert "needs the editor role" in page
    assert '<form class="actions"' not in page
    assert "disabled" in read(viewer, "/sources/")
