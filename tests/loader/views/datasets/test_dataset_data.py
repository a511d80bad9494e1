"""A dataset's data: the sample, what runs changed, answers as files, and how it works without scripts."""

from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client

from architecture.domain.tables import TableSpec, history_table, raw_table, rawcore_table
from architecture.models import Environment
from architecture.services.states import current_environment, write_applied
from elevata.accounts.services.users import ensure_user, grant_role, set_roles
from elevata.core.errors import MetadataError
from loader.domain.queries.masking import masked_names
from loader.domain.refusals import Refusal
from loader.models import ReadRequest
from loader.services.reads.exports import export_file, remove_old_exports
from loader.services.reads.manifests import read_manifest
from metadata.domain.sensitivity import MASK
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors.datasets import dataset_state, dataset_states
from tests.elevata.web.forms import typed
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, words
from tests.loader.factories import DatasetRunFactory, LoadRunFactory, ReadRequestFactory, loaded

pytestmark = pytest.mark.django_db
KEY = "a" * 64
LONG = "a long name " * 20


def table_of(dataset: TargetDataset, kind: str) -> TableSpec:
    state = dataset_state(dataset)
    if state.layer == "raw":
        return raw_table(state)
    return rawcore_table(state) if kind in ("sample", "export") else history_table(state)


def answered(dataset: TargetDataset, person: User, kind: str, *rows: dict, **answer: object) -> ReadRequest:
    """A read of these rows that ended well."""
    columns = [column.name for column in table_of(dataset, kind).columns]
    plain = {"rc_air_airport_key": KEY, "load_run_id": "good"}
    found = [[({**plain, **row}).get(name) for name in columns] for row in rows]
    told = {"table_version": 7, "columns": columns, "rows": found, "truncated": False, **answer}
    return ReadRequestFactory(dataset=dataset, requested_by=person, kind=kind, status="succeeded", answer=told)


def part(client: Client, made: ReadRequest) -> str:
    return html_of(client.get(f"/reads/{made.pk}/", headers={"HX-Request": "true"}))


def data(dataset: TargetDataset, part: str = "") -> str:
    return f"/datasets/{dataset.key}/data/{part}"


# --- frames -------------------------------------------------------------------------------------


def test_looking_at_data_writes_nothing(reader: Client, airport: TargetDataset):
    loaded(airport)
    for where in ("", "?rows=200&sort=loaded_at&descending=on", "changes/", "changes/?op=D"):
        assert reader.get(data(airport, where)).status_code == 200
    assert not ReadRequest.objects.exists()


def test_the_data_tab_brings_the_ways_to_look_together(reader: Client, airport: TargetDataset):
    text = read(reader, data(airport))
    for name, address in (
        ("Sample", data(airport)),
        ("Versions of a key", f"/datasets/{airport.key}/history/"),
        ("As of", f"/datasets/{airport.key}/history/as-of/"),
        ("Changes by run", data(airport, "changes/")),
    ):
        assert f'href="{address}"' in text
        assert name in words(text)


def test_what_is_not_historized_has_a_sample_only(reader: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    assert "Changes by run" not in read(reader, data(raw))
    assert reader.get(data(raw, "changes/")).status_code == 404


@pytest.fixture
def view(airport: TargetDataset) -> TargetDataset:
    """The view of stage over the airports' raw table, as if an execution had created both."""
    for state in dataset_states():
        write_applied(environment=current_environment(), state=state, versions={}, execution=None, through=0)
    return TargetDataset.objects.get(name="stg_air_airport")


def test_rows_of_a_view_are_read_from_the_tables_beneath(reader: Client, view: TargetDataset):
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


def test_rows_of_a_view_need_the_permission_to_read_the_tables_beneath(view: TargetDataset, client: Client):
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", schema=view.schema.name)
    client.force_login(vera)
    ask(client, view, kind="sample", rows="20")
    with pytest.raises(MetadataError, match="raw_air_airport"):
        read_manifest(read=ReadRequest.objects.get())


def test_sensitive_columns_of_a_view_are_masked_with_those_beneath(reader: Client, view: TargetDataset):
    TargetColumn.objects.filter(dataset__name="raw_air_airport", name="name").update(pii=True)
    ask(reader, view, kind="sample", rows="20")
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert [masked_names(source.table.columns, source.masking) for source in manifest.sources] == [["name"], ["name"]]
    asked = {"kind": "sample", "rows": "20", "sort": "name"}
    assert "name is masked for you" in words(html_of(ask(reader, view, **asked)))


def test_a_sample_says_which_run_left_the_table(reader: Client, airport: TargetDataset):
    loaded(airport, run_id="good")
    assert "Last loaded by run good" in words(read(reader, data(airport)))


@pytest.mark.parametrize("query", ["rows=7", "sort=upwards", "rows=<x>"])
def test_a_choice_that_is_none_is_said_and_the_usual_sample_shown(reader: Client, airport: TargetDataset, query: str):
    text = read(reader, data(airport, f"?{query}"))
    assert "Select a valid choice" in text
    assert 'name="rows" value="50"' in text


# --- questions ----------------------------------------------------------------------------------


def ask(client: Client, dataset: TargetDataset, *, script: bool = True, **question: str):
    headers = {"HX-Request": "true"} if script else {}
    return client.post(f"/datasets/{dataset.key}/reads/", question, headers=headers)


def test_a_sample_is_asked_with_its_size_and_order(reader: Client, airport: TargetDataset):
    ask(reader, airport, kind="sample", rows="200", sort="loaded_at", descending="on")
    asked = ReadRequest.objects.get()
    assert (asked.kind, asked.arguments) == ("sample", {"limit": 200, "sort": "loaded_at", "descending": True})
    assert read_manifest(read=asked).table.kind == "rawcore"


def test_rows_are_chosen_and_sorted_by_any_column(reader: Client, airport: TargetDataset):
    text = read(reader, data(airport, "?find=ulm&column=icao&comparison=starts&value=ED&sort=name&descending=on"))
    for name, value in (("find", "ulm"), ("column", "icao"), ("comparison", "starts"), ("sort", "name")):
        assert f'type="hidden" name="{name}" value="{value}"' in text
    ask(reader, airport, kind="sample", rows="20", find="ulm", sort="name", descending="True", offset="20")
    arguments = {"limit": 20, "find": "ulm", "sort": "name", "descending": True, "offset": 20}
    assert ReadRequest.objects.get().arguments == arguments


@pytest.mark.parametrize(("kind", "page"), [("sample", "data/"), ("as_of", "history/as-of/")])
def test_headings_sort_by_their_columns(reader: Client, person: User, airport: TargetDataset, kind: str, page: str):
    made = answered(airport, person, kind, {"icao": "EDDB", "name": MASK}, masked=["name"])
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


def test_an_unknown_column_is_no_choice(reader: Client, airport: TargetDataset):
    assert "Select a valid choice" in read(reader, data(airport, "?sort=gone"))


def test_a_page_of_rows_leads_to_those_before_and_after_it(reader: Client, person: User, airport: TargetDataset):
    made = answered(airport, person, "sample", {"icao": "EDDB"}, truncated=True)
    ReadRequest.objects.filter(pk=made.pk).update(arguments={"limit": 20, "sort": "icao", "offset": 20})
    text = part(reader, made)
    assert f'href="{data(airport)}?rows=20&amp;sort=icao"' in text
    assert f'href="{data(airport)}?rows=20&amp;sort=icao&amp;offset=40"' in text
    assert "From row 21" in words(text)


def test_the_sample_of_a_history_is_of_its_own_table(reader: Client, airport: TargetDataset):
    ask(reader, airport.history, kind="sample", rows="20")
    assert read_manifest(read=ReadRequest.objects.get()).table.kind == "history"


def test_changes_are_asked_of_the_history_by_run_and_kind(reader: Client, airport: TargetDataset):
    ask(reader, airport, kind="changes", run="good", op="D")
    asked = ReadRequest.objects.get()
    assert asked.arguments == {"run_id": "good", "limit": 100, "op": "D"}
    assert read_manifest(read=asked).table.kind == "history"


def test_changes_of_what_is_not_historized_are_refused_in_words(reader: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    assert ask(reader, raw, kind="changes", run="good").status_code == 200
    assert not ReadRequest.objects.filter(kind="changes", status="succeeded").exists()


def test_without_scripts_a_question_leads_to_a_page_that_can_be_asked_again(reader: Client, airport: TargetDataset):
    assert "<noscript>" in read(reader, data(airport))
    answer = ask(reader, airport, script=False, kind="sample", rows="20")
    asked = ReadRequest.objects.get()
    assert answer.url == f"/reads/{asked.pk}/"
    page = read(reader, answer.url)
    assert "<html" in page
    assert "Check for the result" in page


def test_an_export_has_the_rows_of_the_filter_in_its_order(reader: Client, airport: TargetDataset, settings):
    ask(reader, airport, kind="export", find="ulm", sort="name", descending="True", offset="20")
    asked = ReadRequest.objects.get()
    assert asked.arguments == {"find": "ulm", "sort": "name", "descending": True}
    assert read_manifest(read=asked).arguments["path"] == f"{settings.EXPORT_FOLDER}/{asked.pk}.csv"


def test_rows_as_of_a_time_are_exported_from_the_history(reader: Client, airport: TargetDataset):
    ask(reader, airport, kind="export", at="2026-11-21T00:00:00+00:00", find="ED", offset=50)
    asked = ReadRequest.objects.get()
    assert asked.arguments == {"at": "2026-11-21T00:00:00+00:00", "find": "ED"}
    assert read_manifest(read=asked).table.kind == "history"


def test_a_masked_column_is_no_order_of_an_export(reader: Client, airport: TargetDataset):
    TargetColumn.objects.filter(dataset=airport, name="name").update(pii=True)
    assert "name is masked for you" in words(html_of(ask(reader, airport, kind="export", sort="name")))
    assert not ReadRequest.objects.exists()


# --- comparisons --------------------------------------------------------------------------------


def compare(dataset: TargetDataset, query: str = "") -> str:
    return f"/datasets/{dataset.key}/compare/{query}"


@pytest.fixture
def prod(airport: TargetDataset) -> Environment:
    return Environment.objects.create(name="prod", warehouse="/srv/prod/warehouse")


def test_two_dates_of_a_history_are_compared(reader: Client, airport: TargetDataset):
    assert 'name="by" value="dates"' in read(reader, compare(airport))
    text = read(reader, compare(airport, "?by=dates&base=2026-11-21T00:00:00&other=2026-11-22T00:00:00"))
    assert 'name="base" value="2026-11-21T00:00:00+00:00"' in text
    ask(reader, airport, kind="compare", by="dates", base="2026-11-21", other="2026-11-22")
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert (manifest.table.kind, manifest.arguments["other"]) == ("history", "2026-11-22T00:00:00+00:00")


def test_two_versions_of_a_table_are_offered_by_their_runs(reader: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    assert "no earlier state yet" in read(reader, compare(raw))
    for version in (3, 4):
        run = LoadRunFactory(run_id=f"r{version}", environment=current_environment())
        DatasetRunFactory(run=run, dataset=raw, table_version_after=version)
    text = words(read(reader, compare(raw)))
    assert "UTC · r3" in text
    ask(reader, raw, kind="compare", by="versions", base="3", other="4")
    assert read_manifest(read=ReadRequest.objects.get()).table.kind == "raw"


def test_another_environment_is_compared_with_the_permission_in_both(
    client: Client, reader: Client, airport: TargetDataset, prod: Environment, settings
):
    assert '<option value="prod"' in read(reader, compare(airport, "?by=environments"))
    ask(reader, airport, kind="compare", by="environments", base="prod")
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert manifest.arguments["warehouse"] == prod.warehouse
    assert [source.table.key for source in manifest.sources] == [manifest.table.key]
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", environment=settings.ENVIRONMENT)
    client.force_login(vera)
    assert 'value="prod"' not in read(client, compare(airport, "?by=environments"))
    asked = {"kind": "compare", "by": "environments", "base": "prod"}
    assert "no other environment" in words(html_of(ask(client, airport, **asked)))
    assert ReadRequest.objects.count() == 1


@pytest.fixture
def two_views(view: TargetDataset, prod: Environment) -> TargetDataset:
    """The view of stage in two environments."""
    for state in dataset_states():
        write_applied(environment=prod, state=state, versions={}, execution=None, through=0)
    return view


def test_a_view_is_compared_with_another_environment_from_the_tables_beneath(
    reader: Client, two_views: TargetDataset, prod: Environment
):
    assert f'href="{compare(two_views)}"' in read(reader, data(two_views))
    assert '<option value="prod"' in read(reader, compare(two_views))
    ask(reader, two_views, kind="compare", by="environments", base="prod")
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert manifest.arguments["warehouse"] == prod.warehouse
    for sources in (manifest.sources, manifest.other_sources):
        assert [source.table.name for source in sources] == ["raw_air_airport", "stg_air_airport"]


def test_a_view_has_no_earlier_states(reader: Client, view: TargetDataset):
    assert "there is no other whose data you may read" in words(read(reader, compare(view)))
    asked = {"kind": "compare", "by": "versions", "base": "1", "other": "2"}
    assert "which has no earlier states" in words(html_of(ask(reader, view, **asked)))


def test_comparing_a_view_needs_the_permission_for_the_tables_beneath_in_both_environments(
    client: Client, two_views: TargetDataset, settings
):
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", environment=settings.ENVIRONMENT)
    grant_role(user=vera, role="viewer", schema=two_views.schema.name)
    client.force_login(vera)
    ask(client, two_views, kind="compare", by="environments", base="prod")
    with pytest.raises(MetadataError, match="raw_air_airport"):
        read_manifest(read=ReadRequest.objects.get())


def test_sensitive_values_are_compared_with_the_permission_in_both_environments(
    client: Client, airport: TargetDataset, prod: Environment, settings
):
    TargetColumn.objects.filter(dataset=airport, name="name").update(pii=True)
    vera = ensure_user(name="vera", roles=["viewer"])
    grant_role(user=vera, role="steward", environment=settings.ENVIRONMENT)
    client.force_login(vera)
    ask(client, airport, kind="compare", by="environments", base="prod")
    manifest = read_manifest(read=ReadRequest.objects.get())
    for masking in (manifest.masking, manifest.sources[0].masking):
        assert "name" in masked_names(manifest.table.columns, masking)


def test_a_difference_shows_changed_values_before_and_after(reader: Client, airport: TargetDataset, person: User):
    samples = {"columns": ["icao", "name"], "added": [["EDDF", "New"]], "gone": [], "changed": []}
    samples["changed"] = [{"before": ["EDDB", "Old"], "after": ["EDDB", "Berlin"]}]
    difference = {
        "table": str(airport),
        "table_version": 7,
        "key": ["icao"],
        "rows": {"added": 1, "changed": 1, "gone": 0, "same": 5},
        "columns": {"added": [], "gone": [], "retyped": [], "left_out": ["elevation"]},
        "changed": {"name": 1},
        "repeated_keys": 0,
        "samples": samples,
    }
    made = answered(airport, person, "compare", difference=difference)
    ReadRequest.objects.filter(pk=made.pk).update(arguments={"by": "versions", "base": "6", "other": "7"})
    text = part(reader, made)
    assert "version 6 to version 7" in words(text)
    assert "1 added, 1 changed, 0 gone, 5 the same" in words(text)
    assert "elevation is masked for you and not compared" in words(text)
    assert "<del>Old</del> → <ins>Berlin</ins>" in text
    assert html_of(reader.get(f"/reads/{made.pk}/rows.csv")).splitlines() == [
        '"row","before.icao","before.name","after.icao","after.name"',
        '"added",,,"EDDF","New"',
        '"changed","EDDB","Old","EDDB","Berlin"',
    ]


def test_a_comparison_with_more_rows_than_it_shows_has_all_of_them_as_csv(
    reader: Client, airport: TargetDataset, person: User, settings, tmp_path: Path
):
    settings.EXPORT_FOLDER = str(tmp_path)
    samples = {"columns": ["icao"], "added": [["EDDF"]], "gone": [], "changed": []}
    difference = {
        "table": str(airport),
        "table_version": 7,
        "key": ["icao"],
        "rows": {"added": 2, "changed": 0, "gone": 0, "same": 5},
        "columns": {"added": [], "gone": [], "retyped": [], "left_out": []},
        "changed": {},
        "repeated_keys": 0,
        "samples": samples,
        "exported": 2,
    }
    made = answered(airport, person, "compare", difference=difference)
    ReadRequest.objects.filter(pk=made.pk).update(arguments={"by": "versions", "base": "6", "other": "7"})
    assert "Shown are 1 of 2 rows that differ, the first of each kind. The CSV file has all of them." in words(
        part(reader, made)
    )
    (tmp_path / f"{made.pk}.csv").write_text('"row","before.icao","after.icao"\n"added",,"EDDF"\n"added",,"EDDG"\n')
    answer = reader.get(f"/reads/{made.pk}/rows.csv")
    assert b"".join(answer.streaming_content).decode().count("\n") == 3
    rows = reader.get(f"/api/v1/reads/{made.pk}/rows/")
    assert (rows["Content-Type"], rows["X-Truncated"]) == ("text/csv; charset=utf-8", "false")


# --- answers ------------------------------------------------------------------------------------


def test_a_sample_tells_null_from_empty_text_and_keeps_long_values_whole(
    reader: Client, airport: TargetDataset, person: User
):
    row = {"icao": "EDDB", "name": LONG, "elevation": None}
    text = part(reader, answered(airport, person, "sample", row, {"icao": "<b>", "name": ""}))
    assert '<span class="nothing">NULL</span>' in text
    assert '<span class="nothing empty-text">empty text</span>' in text
    assert f"<span>{LONG}</span></details>" in text
    assert "&lt;b&gt;" in text
    assert 'tabindex="0"' in text
    assert "times in UTC" in text


def test_columns_of_personal_data_say_so(reader: Client, airport: TargetDataset, person: User):
    TargetColumn.objects.filter(dataset=airport, name="name").update(pii=True)
    text = part(reader, answered(airport, person, "sample", {"icao": "EDDB", "name": MASK}, masked=["name"]))
    assert words(text).count("personal data masked") == 1
    assert 'title="Masked: your roles do not include sensitive values"' in text


def test_an_answer_that_holds_what_was_classified_since_is_withheld(
    reader: Client, airport: TargetDataset, person: User
):
    made = answered(airport, person, "sample", {"icao": "EDDB", "name": "Berlin"})
    assert "Berlin" in part(reader, made)
    TargetColumn.objects.filter(dataset=airport, name="name").update(pii=True)
    assert "Berlin" not in part(reader, made)
    assert reader.get(f"/reads/{made.pk}/rows.csv").status_code == 403
    set_roles(user=person, roles=["steward"])
    assert "Berlin" in part(reader, made)


def test_an_export_is_sent_block_by_block_until_its_file_is_removed(
    reader: Client, airport: TargetDataset, person: User, settings, tmp_path: Path
):
    settings.EXPORT_FOLDER = str(tmp_path)
    made = answered(airport, person, "export", exported=2, masked=[])
    assert "Download 2 rows" in words(part(reader, made))
    export_file(made).write_text('"icao"\r\n"EDDB"\r\n"EDDF"\r\n')
    answer = reader.get(f"/reads/{made.pk}/rows.csv")
    assert answer.streaming
    assert answer.getvalue() == b'"icao"\r\n"EDDB"\r\n"EDDF"\r\n'
    remove_old_exports(timedelta(seconds=-1))
    assert reader.get(f"/reads/{made.pk}/rows.csv").status_code == 404


def test_an_export_with_what_was_classified_since_is_withheld(reader: Client, airport: TargetDataset, person: User):
    made = answered(airport, person, "export", exported=2, masked=[])
    TargetColumn.objects.filter(dataset=airport, name="name").update(pii=True)
    assert reader.get(f"/reads/{made.pk}/rows.csv").status_code == 403


@pytest.mark.parametrize("kind", ["sample", "as_of"])
def test_data_of_another_schema_is_not_read(client: Client, airport: TargetDataset, kind: str):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", schema=airport.schema.name)
    client.force_login(vera)
    assert client.get(data(airport)).status_code == 200
    assert client.get(data(raw)).status_code == 403
    assert client.get(f"/datasets/{raw.key}/").status_code == 200
    assert client.post(f"/datasets/{raw.key}/reads/", {"kind": kind}).status_code == 403
    assert "EDDB" not in part(client, answered(raw, vera, "sample", {"icao": "EDDB"}))


def test_a_masked_key_is_told_by_the_beginning_of_its_hash(reader: Client, airport: TargetDataset, person: User):
    airport.columns.filter(name="icao").update(sensitivity="restricted")
    for kind in ("key_search", "as_of"):
        made = answered(airport, person, kind, {"icao": MASK}, masked=["icao"])
        assert KEY[:12] in words(part(reader, made))
    sent = {"kind": "key_search", "text": "E"}
    refused = reader.post(f"/datasets/{airport.key}/reads/", sent, headers={"HX-Request": "true"})
    assert "icao is masked for you" in words(html_of(refused))


def test_an_empty_table_says_why_it_may_be_and_where_to_go(reader: Client, airport: TargetDataset, person: User):
    text = part(reader, answered(airport, person, "sample"))
    assert "The table is empty" in text
    assert f'href="/datasets/{airport.key}/history/"' in text


def test_a_table_that_is_not_there_says_what_to_do_first(operator: Client, starter: User, airport: TargetDataset):
    error = {"code": "NO_TABLE", "message": "it does not exist yet", "hint": "A load run creates it."}
    made = ReadRequestFactory(dataset=airport, requested_by=starter, kind="sample", status="failed", error=error)
    text = part(operator, made)
    assert "Nothing loaded yet" in text
    assert f"?start={airport}#start" in text


def change(op: str, columns: list[str], before: dict | None, after: dict | None) -> dict:
    rows = [[one.get(name) for name in columns] if one is not None else None for one in (before, after)]
    return {"op": op, "key": KEY, "before": rows[0], "after": rows[1], "versions": 2}


def test_changes_show_operation_key_and_fields_before_and_after(reader: Client, airport: TargetDataset, person: User):
    columns = [column.name for column in history_table(dataset_state(airport)).columns]
    told = [
        change("U", columns, {"icao": "EDDB", "name": "Old"}, {"icao": "EDDB", "name": "New"}),
        change("D", columns, {"icao": "EDDT", "name": "Tegel"}, None),
    ]
    text = part(reader, answered(airport, person, "changes", changes=told))
    said = words(text)
    assert "<del>Old</del> → <ins>New</ins>" in text
    assert "U updated EDDB" in said
    assert "D deleted EDDT" in said
    assert f'href="/datasets/{airport.key}/history/{KEY}/"' in text


def test_changes_are_filtered_sorted_and_paged_as_a_sample_is(reader: Client, airport: TargetDataset, person: User):
    loaded(airport, run_id="good")
    text = read(reader, data(airport, "changes/?run=good&find=ber&sort=name&rows=20&op=R"))
    for name, value in (("find", "ber"), ("sort", "name"), ("rows", "20"), ("op", "R")):
        assert f'name="{name}" value="{value}"' in text
    asked = {"run": "good", "op": "R", "rows": "20", "find": "ber", "sort": "name", "offset": "20"}
    ask(reader, airport, kind="changes", **asked)
    arguments = {"run_id": "good", "limit": 20, "op": "R", "find": "ber", "sort": "name", "offset": 20}
    assert ReadRequest.objects.get().arguments == arguments
    made = answered(airport, person, "changes", changes=[], truncated=True)
    ReadRequest.objects.filter(pk=made.pk).update(arguments=arguments)
    text = part(reader, made)
    scope = "op=R&amp;run=good&amp;rows=20&amp;find=ber&amp;sort=name"
    assert f'rel="prev" href="{data(airport, "changes/")}?{scope}"' in text
    assert f'rel="next" href="{data(airport, "changes/")}?{scope}&amp;offset=40"' in text


def test_all_changes_of_a_run_are_exported_beyond_the_page(reader: Client, airport: TargetDataset, person: User):
    table = [None] * len(table_of(airport, "changes").columns)
    told = [{"op": "I", "key": KEY, "before": None, "after": table, "versions": 1}]
    made = answered(airport, person, "changes", changes=told, truncated=True)
    made.arguments = {"run_id": "good", "op": "I", "find": "ulm", "offset": 1}
    made.save()
    asked = typed(part(reader, made), having="run")
    assert "Export all changes" in part(reader, made)
    reader.post(f"/datasets/{airport.key}/reads/", asked)
    export = ReadRequest.objects.get(kind="export")
    assert export.arguments == {"run_id": "good", "op": "I", "find": "ulm"}
    assert read_manifest(read=export).table.kind == "history"


def test_changes_are_had_as_csv_with_both_versions(reader: Client, airport: TargetDataset, person: User):
    columns = [column.name for column in history_table(dataset_state(airport)).columns]
    told = [change("U", columns, {"icao": "EDDB"}, {"icao": "EDDB"})]
    header, row = html_of(
        reader.get(f"/reads/{answered(airport, person, 'changes', changes=told).pk}/rows.csv")
    ).split()
    assert header.startswith('"op","entity_key","versions","before.')
    assert row.startswith(f'"U","{KEY}","2",')
    assert row.count('"EDDB"') == 2


def test_the_newest_run_is_looked_at_unless_another_is_chosen(reader: Client, airport: TargetDataset):
    for name in ("first", "second"):
        DatasetRunFactory(run=LoadRunFactory(run_id=name), dataset=airport)
    DatasetRunFactory(run=LoadRunFactory(run_id="bad", status="failed"), dataset=airport, status="failed")
    assert 'name="run" value="second"' in read(reader, data(airport, "changes/"))
    chosen = read(reader, data(airport, "changes/?run=first&op=D"))
    assert 'name="run" value="first"' in chosen
    assert 'name="op" value="D"' in chosen
    assert "bad" not in words(chosen)


def test_a_run_that_is_none_is_said(reader: Client, airport: TargetDataset):
    loaded(airport)
    text = read(reader, data(airport, "changes/?run=nowhere"))
    assert "Select a valid choice" in text
    assert 'hx-trigger="load"' not in text


def test_before_the_first_run_the_page_of_changes_says_what_to_do(operator: Client, airport: TargetDataset):
    text = read(operator, data(airport, "changes/"))
    assert "No changes yet" in text
    assert f"?start={airport}#start" in text


# --- files --------------------------------------------------------------------------------------


def test_a_sample_is_had_as_csv_by_whoever_asked_for_it(
    reader: Client, operator: Client, airport: TargetDataset, person: User
):
    made = answered(airport, person, "sample", {"icao": "EDDB", "name": ""})
    answer = reader.get(f"/reads/{made.pk}/rows.csv")
    assert answer["Content-Type"].startswith("text/csv")
    assert "rawcore.rc_air_airport-sample-v7.csv" in answer["Content-Disposition"]
    assert '"EDDB",""' in html_of(answer)
    assert operator.get(f"/reads/{made.pk}/rows.csv").status_code == 404


def test_what_is_not_answered_yet_is_no_file(reader: Client, airport: TargetDataset, person: User):
    made = ReadRequestFactory(dataset=airport, requested_by=person, kind="sample")
    assert reader.get(f"/reads/{made.pk}/rows.csv").status_code == 404


# --- a key's life -------------------------------------------------------------------------------


def test_a_keys_life_stands_beside_its_versions_with_what_changed(reader: Client, airport: TargetDataset, person: User):
    made = answered(
        airport,
        person,
        "versions",
        {"icao": "EDDB", "name": "Old", "version_started_at": "2020-01-01 00:00:00", "version_ended_at": "2021-01-01"},
        {"icao": "EDDB", "name": "New", "version_started_at": "2022-01-01 00:00:00", "version_segment": "open"},
    )
    text = part(reader, made)
    assert "rail-open" in text
    assert "rail-gap" in text
    assert '<td class="is-changed">New<span class="visually-hidden"> (changed)</span></td>' in text
    assert "absent for 1 year" in text


# --- origin -------------------------------------------------------------------------------------

ORIGIN = ["raw", "load_run_id", "loaded_at", "source_file", "source_row", "opened_version"]


def test_the_origin_of_a_row_is_asked_by_its_key_over_the_raw_table(reader: Client, airport: TargetDataset):
    assert f'name="entity_key" value="{KEY}"' in read(reader, f"/datasets/{airport.key}/origin/{KEY}/")
    ask(reader, airport, kind="origin", entity_key=KEY)
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert [one.table.qualified_name for one in manifest.inputs] == ["raw.raw_air_airport"]
    assert [part.column for part in manifest.entity_key] == ["icao"]
    assert manifest.table.kind == "history"


def test_an_origin_shows_run_source_file_and_row_and_what_raw_no_longer_has(
    reader: Client, airport: TargetDataset, person: User
):
    LoadRunFactory(run_id="good")
    row = ["raw.raw_air_airport", "good", "2024-01-31 08:00:00", "day/airports.csv", "17", "true"]
    told = {"table_version": 7, "columns": ORIGIN, "rows": [row], "truncated": False, "removed": ["first"]}
    made = ReadRequestFactory(
        dataset=airport,
        requested_by=person,
        kind="origin",
        status="succeeded",
        answer=told,
        arguments={"entity_key": KEY},
    )
    text = part(reader, made)
    source = airport.generated_from
    for address in ("/load-runs/good/", f"/sources/{source.key}/", "/load-runs/first/"):
        assert f'href="{address}"' in text
    for words_ in ("day/airports.csv", "17", "opened a version", "Raw no longer has the deliveries"):
        assert words_ in words(text)


def test_a_raw_row_has_no_origin_beside_its_own_columns(reader: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    ask(reader, raw, kind="origin", entity_key=KEY)
    assert not ReadRequest.objects.exists()
