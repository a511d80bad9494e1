"""A dataset's data: frames of its pages, and the requests for samples, changes and exports."""

from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client

from elevata.accounts.services.users import ensure_user, grant_role
from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from loader.domain.queries.masking import masked_names
from loader.models import ReadRequest
from loader.services.reads.manifests import read_manifest
from metadata.domain.sensitivity import MASK
from metadata.models import TargetColumn, TargetDataset
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, words
from tests.loader.factories import loaded
from tests.loader.views.datasets.dataset_data import answered_read, ask, data, part

pytestmark = pytest.mark.django_db


# --- frames -------------------------------------------------------------------------------------


def test_get_of_data_pages_creates_no_read(reader: Client, airport: TargetDataset):
    loaded(airport)
    for where in ("", "?rows=200&sort=loaded_at&descending=on", "changes/", "changes/?op=D"):
        assert reader.get(data(airport, where)).status_code == 200
    assert not ReadRequest.objects.exists()


def test_data_tab_links_sample_versions_as_of_and_changes(reader: Client, airport: TargetDataset):
    text = read(reader, data(airport))
    for name, address in (
        ("Sample", data(airport)),
        ("Versions of a key", f"/datasets/{airport.key}/history/"),
        ("As of", f"/datasets/{airport.key}/history/as-of/"),
        ("Changes by run", data(airport, "changes/")),
    ):
        assert f'href="{address}"' in text
        assert name in words(text)


def test_dataset_without_history_has_no_changes_page(reader: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    assert "Changes by run" not in read(reader, data(raw))
    assert reader.get(data(raw, "changes/")).status_code == 404


def test_rows_of_a_view_are_read_from_its_base_tables(reader: Client, view: TargetDataset):
    assert 'name="sort" value="icao"' in read(reader, data(view, "?sort=icao"))
    ask(reader, view, kind="sample", rows="20", sort="icao")
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert [source.table.name for source in manifest.sources] == ["raw_air_airport", "stg_air_airport"]
    assert manifest.table.kind == "view"


def test_a_view_is_profiled_with_counts_of_masked_columns(reader: Client, view: TargetDataset):
    TargetColumn.objects.filter(dataset__name="raw_air_airport", name="name").update(pii=True)
    assert 'name="kind" value="profile"' in read(reader, f"/datasets/{view.key}/quality/profile/")
    ask(reader, view, kind="profile")
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert [source.masking for source in manifest.sources] == [None, None]
    assert masked_names(manifest.table.columns, manifest.masking) == ["name"]


def test_a_view_over_tables_that_do_not_exist_yet_is_refused(reader: Client, airport: TargetDataset):
    ask(reader, TargetDataset.objects.get(name="stg_air_airport"), kind="sample", rows="20")
    with pytest.raises(Refusal, match=r"stage.stg_air_airport reads a table that does not exist"):
        read_manifest(read=ReadRequest.objects.get())


def test_rows_of_a_view_need_the_permission_to_read_its_base_tables(view: TargetDataset, client: Client):
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", schema=view.schema.name)
    client.force_login(vera)
    ask(client, view, kind="sample", rows="20")
    with pytest.raises(MetadataError, match="raw_air_airport"):
        read_manifest(read=ReadRequest.objects.get())


def test_sensitive_columns_of_a_view_are_masked_with_those_of_its_base_tables(reader: Client, view: TargetDataset):
    TargetColumn.objects.filter(dataset__name="raw_air_airport", name="name").update(pii=True)
    ask(reader, view, kind="sample", rows="20")
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert [masked_names(source.table.columns, source.masking) for source in manifest.sources] == [["name"], ["name"]]
    fields = {"kind": "sample", "rows": "20", "sort": "name"}
    assert "name is masked for you" in words(html_of(ask(reader, view, **fields)))


def test_sample_names_the_run_that_last_loaded_the_table(reader: Client, airport: TargetDataset):
    loaded(airport, run_id="good")
    page = read(reader, data(airport))
    assert "Last loaded by the load of all datasets" in words(page)
    assert 'href="/load-runs/good/"' in page


@pytest.mark.parametrize("query", ["rows=7", "sort=upwards", "rows=<x>"])
def test_invalid_sample_option_shows_an_error_and_the_default_sample(
    reader: Client, airport: TargetDataset, query: str
):
    text = read(reader, data(airport, f"?{query}"))
    assert "Select a valid choice" in text
    assert 'name="rows" value="50"' in text


# --- questions ----------------------------------------------------------------------------------


def test_sample_read_stores_its_size_and_order(reader: Client, airport: TargetDataset):
    ask(reader, airport, kind="sample", rows="200", sort="loaded_at", descending="on")
    request = ReadRequest.objects.get()
    assert (request.kind, request.arguments) == ("sample", {"limit": 200, "sort": "loaded_at", "descending": True})
    assert read_manifest(read=request).table.kind == "rawcore"


def test_rows_are_chosen_and_sorted_by_any_column(reader: Client, airport: TargetDataset):
    text = read(reader, data(airport, "?find=ulm&column=icao&comparison=starts&value=ED&sort=name&descending=on"))
    for name, value in (("find", "ulm"), ("column", "icao"), ("comparison", "starts"), ("sort", "name")):
        assert f'type="hidden" name="{name}" value="{value}"' in text
    ask(reader, airport, kind="sample", rows="20", find="ulm", sort="name", descending="True", offset="20")
    arguments = {"limit": 20, "find": "ulm", "sort": "name", "descending": True, "offset": 20}
    assert ReadRequest.objects.get().arguments == arguments


@pytest.mark.parametrize(("kind", "page"), [("sample", "data/"), ("as_of", "history/as-of/")])
def test_headings_sort_by_their_columns(reader: Client, person: User, airport: TargetDataset, kind: str, page: str):
    made = answered_read(airport, person, kind, {"icao": "EDDB", "name": MASK}, masked=["name"])
    times = {"at": "2026-11-21T00:00:00+00:00"} if kind == "as_of" else {}
    ReadRequest.objects.filter(pk=made.pk).update(arguments=times | {"limit": 50, "find": "x", "sort": "icao"})
    text = part(reader, made)
    scope = f"/datasets/{airport.key}/{page}?{urlencode(times | {'rows': 50, 'find': 'x'}).replace('&', '&amp;')}"
    assert (
        f'aria-sort="ascending"><a class="mono" title="Sort by this column" href="{scope}&amp;sort=icao&amp;desc'
        in text
    )
    assert f'href="{scope}&amp;sort=elevation"' in text
    assert "sort=name" not in text


def test_rows_as_of_a_time_are_filtered_sorted_and_paged_as_a_sample_is(reader: Client, airport: TargetDataset):
    page = f"/datasets/{airport.key}/history/as-of/?at=2026-11-21T00:00:00&find=ber&sort=name&rows=20"
    for name, value in (("find", "ber"), ("sort", "name"), ("rows", "20")):
        assert f'name="{name}" value="{value}"' in read(reader, page)
    ask(reader, airport, kind="as_of", at="2026-11-21T00:00:00", rows="20", find="ber", sort="name", offset="20")
    at = "2026-11-21T00:00:00+00:00"
    assert ReadRequest.objects.get().arguments == {"at": at, "limit": 20, "find": "ber", "sort": "name", "offset": 20}


def test_the_profile_is_beside_the_sample_and_read_when_it_is_opened(reader: Client, airport: TargetDataset):
    text = read(reader, data(airport))
    assert 'hx-trigger="toggle once from:closest details"' in text
    assert 'name="kind" value="profile"' in text


def test_sort_by_an_unknown_column_is_refused(reader: Client, airport: TargetDataset):
    assert "Select a valid choice" in read(reader, data(airport, "?sort=gone"))


def test_page_of_rows_links_the_previous_and_next_page(reader: Client, person: User, airport: TargetDataset):
    made = answered_read(airport, person, "sample", {"icao": "EDDB"}, truncated=True)
    ReadRequest.objects.filter(pk=made.pk).update(arguments={"limit": 20, "sort": "icao", "offset": 20})
    text = part(reader, made)
    assert f'href="{data(airport)}?rows=20&amp;sort=icao"' in text
    assert f'href="{data(airport)}?rows=20&amp;sort=icao&amp;offset=40"' in text
    assert "From row 21" in words(text)


def test_sample_of_a_history_reads_the_history_table(reader: Client, airport: TargetDataset):
    ask(reader, airport.history, kind="sample", rows="20")
    assert read_manifest(read=ReadRequest.objects.get()).table.kind == "history"


def test_changes_read_uses_the_history_with_run_and_operation(reader: Client, airport: TargetDataset):
    ask(reader, airport, kind="changes", run="good", op="D")
    request = ReadRequest.objects.get()
    assert request.arguments == {"run_id": "good", "limit": 100, "op": "D"}
    assert read_manifest(read=request).table.kind == "history"


def test_changes_read_of_a_dataset_without_history_is_refused(reader: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    assert ask(reader, raw, kind="changes", run="good").status_code == 200
    assert not ReadRequest.objects.filter(kind="changes", status="succeeded").exists()


def test_read_without_scripts_redirects_to_a_page_that_can_be_reloaded(reader: Client, airport: TargetDataset):
    assert "<noscript>" in read(reader, data(airport))
    answer = ask(reader, airport, script=False, kind="sample", rows="20")
    request = ReadRequest.objects.get()
    assert answer.url == f"/reads/{request.pk}/"
    page = read(reader, answer.url)
    assert "<html" in page
    assert "Check for the result" in page


def test_export_applies_filter_and_order_but_no_offset(reader: Client, airport: TargetDataset, settings):
    ask(reader, airport, kind="export", find="ulm", sort="name", descending="True", offset="20")
    request = ReadRequest.objects.get()
    assert request.arguments == {"find": "ulm", "sort": "name", "descending": True}
    assert read_manifest(read=request).arguments["path"] == f"{settings.EXPORT_FOLDER}/{request.pk}.csv"


def test_rows_as_of_a_time_are_exported_from_the_history(reader: Client, airport: TargetDataset):
    ask(reader, airport, kind="export", at="2026-11-21T00:00:00+00:00", find="ED", offset=50)
    request = ReadRequest.objects.get()
    assert request.arguments == {"at": "2026-11-21T00:00:00+00:00", "find": "ED"}
    assert read_manifest(read=request).table.kind == "history"


def test_export_sorted_by_a_masked_column_is_refused(reader: Client, airport: TargetDataset):
    TargetColumn.objects.filter(dataset=airport, name="name").update(pii=True)
    assert "name is masked for you" in words(html_of(ask(reader, airport, kind="export", sort="name")))
    assert not ReadRequest.objects.exists()
