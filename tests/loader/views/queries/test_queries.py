"""SQL page: editor, running and cancelling a query, results, files, and saved queries."""

import io
from dataclasses import replace
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from django.test import Client

from architecture.services.environments import current_environment
from architecture.services.states import write_applied
from elevata.accounts.services.users import grant_role, set_roles
from loader.domain.queries.masking import masked_names
from loader.models import ReadRequest, SavedQuery
from loader.services.reads.manifests import read_manifest
from loader.services.reads.queries import must_still_see, query_answer, save_query
from loader.services.reads.read_requests import request_query
from metadata.domain.sensitivity import MASK
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_states
from tests.architecture.world import person as someone
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, words

pytestmark = pytest.mark.django_db

AIRPORT = "rawcore.rc_air_airport"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def published(airport: TargetDataset) -> TargetDataset:
    """Store the airports' tables and views, as if an execution had created them."""
    for state in dataset_states():
        write_applied(environment=current_environment(), state=state, versions={}, execution=None, through=0)
    return airport


def run(client: Client, text: str, **more: str) -> str:
    return html_of(client.post("/sql/run/", {"text": text, "limit": "100", **more}, headers=HTMX))


def answered_query(person: User, text: str, columns: list[str], *rows: list) -> ReadRequest:
    return answer(request_query(text, 100, user=person).read, columns, *rows)


def answer(request: ReadRequest, columns: list[str], *rows: list) -> ReadRequest:
    """Answer a query as a worker does."""
    result = {"columns": columns, "types": ["string"] * len(columns), "rows": list(rows), "truncated": False}
    ReadRequest.objects.filter(pk=request.pk).update(answer=query_answer(request, result))
    request.job.__class__.objects.filter(pk=request.pk).update(status="succeeded")
    return ReadRequest.objects.get(pk=request.pk)


def test_view_cannot_be_queried_before_it_is_created(reader: Client, airport: TargetDataset):
    for state in dataset_states():
        if state.materialization == "table":
            write_applied(environment=current_environment(), state=state, versions={}, execution=None, through=0)
    assert "stage.stg_air_airport" not in read(reader, "/sql/")
    assert "UNKNOWN_NAME" in run(reader, "SELECT icao FROM stage.stg_air_airport")


def test_sql_page_without_published_tables_shows_a_message(reader: Client):
    assert "No table is published yet" in read(reader, "/sql/")


def completions(client: Client, *names: str) -> dict:
    return client.get("/sql/completions/", {"name": names} if names else {}).json()


def test_editor_completes_published_names_functions_and_columns(reader: Client, published: TargetDataset):
    offered = completions(reader)
    assert {AIRPORT, f"{AIRPORT}_hist", "stage.stg_air_airport"} <= set(offered["names"])
    assert {"upper", "count", "to_date"} <= set(offered["functions"])
    assert "reflect" not in offered["functions"]
    columns = completions(reader, AIRPORT.upper(), "no.such")["columns"]
    assert list(columns) == [AIRPORT]
    assert "elevation" in dict(columns[AIRPORT])


def test_tree_lists_schemas_tables_and_columns_and_searches_names(reader: Client, published: TargetDataset):
    assert 'hx-get="/sql/tree/?schema=rawcore"' in read(reader, "/sql/tree/")
    assert f'data-insert="{AIRPORT}"' in read(reader, "/sql/tree/?schema=rawcore")
    assert 'data-insert="elevation"' in read(reader, f"/sql/tree/?table={AIRPORT}")
    tree = read(reader, "/sql/tree/?find=AIR_airport")
    assert f'data-insert="{AIRPORT}"' in tree
    assert 'data-insert="elevation"' not in tree
    assert 'data-insert="elevation"' in read(reader, "/sql/tree/?find=ELEV")


def test_editor_and_tree_leave_out_tables_without_permission(published: TargetDataset):
    vera, client = someone("vera"), Client()
    grant_role(user=vera, role="viewer", schema="raw")
    client.force_login(vera)
    assert all(name.startswith("raw.") for name in completions(client)["names"])
    assert completions(client, AIRPORT)["columns"] == {}
    for query in ("", "schema=rawcore", f"table={AIRPORT}", "find=rc_air"):
        assert "data-insert" not in read(client, f"/sql/tree/?{query}")
    assert "rawcore" not in read(client, "/sql/tree/")


def test_page_lists_the_last_queries_of_the_user_with_their_results(reader: Client, published: TargetDataset):
    run(reader, f"\n\nSELECT icao FROM {AIRPORT}")
    page = read(reader, "/sql/")
    request = ReadRequest.objects.get()
    assert f'href="/sql/answers/{request.pk}/">SELECT icao FROM {AIRPORT}</a>' in page
    ReadRequest.objects.update(requested_by=someone("other"))
    assert f"SELECT icao FROM {AIRPORT}</a>" not in read(reader, "/sql/")


def test_query_over_an_unknown_name_suggests_a_similar_name(reader: Client, published: TargetDataset):
    assert f"did you mean {AIRPORT}?" in words(run(reader, "SELECT icao FROM rawcore.rc_air_airprt"))


def test_query_creates_a_read_and_polls_for_its_answer(reader: Client, published: TargetDataset):
    text = run(reader, f"SELECT icao FROM {AIRPORT}")
    request = ReadRequest.objects.get()
    assert (request.kind, request.arguments) == ("sql", {"text": f"SELECT icao FROM {AIRPORT}", "limit": 100})
    assert f"/sql/answers/{request.pk}/?seen=" in text
    assert "Cancel query" in text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "Write a SELECT."),
        ("DROP TABLE x", "line 1, column 1: only one SELECT can be run"),
        ("SELECT * FROM delta.`/etc`", "delta./etc is no published table"),
        (f"SELECT reflect('a', 'b') FROM {AIRPORT}", "the function reflect is not allowed"),
    ],
)
def test_invalid_query_is_refused_without_a_read(reader: Client, published: TargetDataset, query: str, message: str):
    assert message in words(run(reader, query))
    assert not ReadRequest.objects.exists()


def test_query_beyond_the_limit_of_unfinished_reads_is_refused(reader: Client, published: TargetDataset, settings):
    settings.READS_PER_USER = 1
    query = f"SELECT icao FROM {AIRPORT}"
    run(reader, query)
    assert "you have 1 unfinished read, the most that is permitted" in words(run(reader, query))
    assert ReadRequest.objects.count() == 1


def test_without_scripts_the_answer_is_a_page_with_the_query(reader: Client, published: TargetDataset):
    response = reader.post("/sql/run/", {"text": f"SELECT icao FROM {AIRPORT}", "limit": "1000"})
    text = read(reader, response.url)
    assert f"SELECT icao FROM {AIRPORT}</textarea>" in text
    assert "Cancel query" in text


def test_cancelled_query_is_withdrawn(reader: Client, published: TargetDataset):
    run(reader, f"SELECT icao FROM {AIRPORT}")
    request = ReadRequest.objects.get()
    assert "WITHDRAWN" in html_of(reader.post(f"/sql/answers/{request.pk}/cancel/", headers=HTMX))
    assert ReadRequest.objects.get().status == "failed"


def test_query_result_is_escaped_on_the_page_and_in_csv(reader: Client, person: User, published: TargetDataset):
    made = answered_query(person, "SELECT 1", ["x", "y"], ["=1+1", None], ["<script>", 5])
    text = html_of(reader.get(f"/sql/answers/{made.pk}/", headers=HTMX))
    assert "2 rows" in words(text)
    assert "&lt;script&gt;" in text
    file = reader.get(f"/sql/answers/{made.pk}/rows/")
    assert html_of(file) == '"x","y"\r\n"\'=1+1",\r\n"<script>","5"\r\n'
    parquet = reader.get(f"/sql/answers/{made.pk}/rows/?format=parquet")
    assert parquet["Content-Disposition"] == f'attachment; filename="query-{made.pk}.parquet"'
    assert pq.read_table(io.BytesIO(parquet.content)).to_pylist()[0] == {"x": "=1+1", "y": None}


def test_masked_column_is_masked_in_expressions_of_a_query(reader: Client, person: User, published: TargetDataset):
    published.columns.filter(name="name").update(pii=True)
    text = f"SELECT icao, upper(name) AS n FROM {AIRPORT}"
    made = answered_query(person, text, ["icao", "n"], ["EDDB", None])
    assert made.answer["rows"] == [["EDDB", MASK]]
    assert made.answer["hidden"] == {AIRPORT: ["name"]}
    assert f"Masked for you: {AIRPORT}.name" in words(html_of(reader.get(f"/sql/answers/{made.pk}/", headers=HTMX)))
    (source,) = read_manifest(read=made).sources
    visible = {column.name for column in source.table.columns if column.key in source.masking.shown}
    assert "icao" in visible
    assert "name" not in visible


def test_columns_are_masked_by_former_and_unknown_names_where_the_environment_has_other_stable_keys(
    person: User, published: TargetDataset
):
    state = next(state for state in dataset_states() if state.key == str(published.key))
    columns = (
        replace(column, key=str(uuid4()), name="gone" if column.name == "elevation" else column.name)
        for column in state.columns
    )
    applied = replace(state, columns=tuple(columns))
    write_applied(environment=current_environment(), state=applied, versions={}, execution=None, through=0)
    published.columns.filter(name="name").update(pii=True, name="title", former_names=["name"])
    made = request_query(f"SELECT * FROM {AIRPORT}", 100, user=person).read
    (source,) = read_manifest(read=made).sources
    described = source.table.of_purpose("business_key", "attribute")
    masked = masked_names(described, source.masking)
    assert sorted(masked) == ["gone", "name"]
    assert "icao" in {column.name for column in described}


def test_null_is_kept_in_a_query_that_uses_no_masked_column(
    person: User, published: TargetDataset, monkeypatch: pytest.MonkeyPatch
):
    published.columns.filter(name="name").update(pii=True)
    monkeypatch.setattr("loader.domain.queries.masked_lineage.build_scope", lambda tree: None)
    unused = answered_query(person, f"SELECT icao, elevation FROM {AIRPORT}", ["icao", "elevation"], ["EDDB", None])
    used = answered_query(person, f"SELECT icao FROM {AIRPORT} ORDER BY name", ["icao"], [None])
    assert (unused.answer["rows"], unused.answer["masked"]) == ([["EDDB", None]], [])
    assert used.answer["rows"] == [[MASK]]


def test_nulls_are_masked_if_the_lineage_of_a_query_is_unknown(
    person: User, published: TargetDataset, monkeypatch: pytest.MonkeyPatch
):
    published.columns.filter(name="name").update(pii=True)
    monkeypatch.setattr("loader.services.reads.queries.masked_results", lambda *_: None)
    made = answered_query(person, f"SELECT icao, name FROM {AIRPORT}", ["icao", "name"], ["EDDB", None], ["EDDF", None])
    assert (made.answer["rows"], made.answer["masked"]) == ([["EDDB", MASK], ["EDDF", MASK]], ["name"])


def test_query_of_a_view_over_a_history_masks_the_history(person: User, published: TargetDataset):
    published.columns.filter(name="name").update(pii=True)
    TargetDataset.objects.filter(pk=published.pk).update(history_policy={"views": ["current"]})
    for state in dataset_states():
        if state.key == str(published.key):
            write_applied(environment=current_environment(), state=state, versions={}, execution=None, through=0)
    made = answered_query(person, f"SELECT name FROM {AIRPORT}_hist_current", ["name"], [None])
    assert made.answer["rows"] == [[MASK]]
    history, view = read_manifest(read=made).sources
    assert (history.query, history.masking is None) == (None, False)
    assert (view.query is None, view.masking) == (False, None)
    assert history.view in view.query


def test_query_answer_is_withheld_after_one_of_its_columns_is_classified(
    person: User, reader: Client, published: TargetDataset
):
    made = answered_query(person, f"SELECT name FROM {AIRPORT}", ["name"], ["Berlin"])
    must_still_see(person, made)
    published.columns.filter(name="name").update(pii=True)
    text = html_of(reader.get(f"/sql/answers/{made.pk}/", headers=HTMX))
    assert "NOT_PERMITTED" in text
    assert "Berlin" not in text
    assert reader.get(f"/sql/answers/{made.pk}/rows/").status_code == 403


def test_tables_of_a_schema_without_permission_cannot_be_queried(
    reader: Client, person: User, published: TargetDataset
):
    set_roles(user=person, roles=[])
    grant_role(user=person, role="viewer", schema="rawcore")
    assert "NOT_PERMITTED" in run(reader, "SELECT icao FROM raw.raw_air_airport")
    assert "NOT_PERMITTED" in run(reader, "SELECT icao FROM stage.stg_air_airport")
    assert "Cancel query" in run(reader, f"SELECT icao FROM {AIRPORT}")


def test_queries_are_saved_replaced_shared_and_deleted(reader: Client, operator: Client, person: User):
    for text in ("SELECT 1", "SELECT 2"):
        reader.post("/sql/save/", {"name": "mine", "text": text})
    assert SavedQuery.objects.get().text == "SELECT 2"
    key = SavedQuery.objects.get().key
    assert "SELECT 2" in read(reader, f"/sql/?saved={key}")
    assert "mine" not in words(read(operator, "/sql/saved/"))
    save_query(owner=person, name="mine", text="SELECT 2", shared=True)
    assert "SELECT 2" in read(operator, "/sql/saved/")
    assert operator.post(f"/sql/saved/{key}/delete/").status_code == 404
    reader.post(f"/sql/saved/{key}/delete/")
    assert not SavedQuery.objects.exists()


def test_a_query_without_a_name_is_not_saved(reader: Client):
    reader.post("/sql/save/", {"name": " ", "text": "SELECT 1"})
    assert not SavedQuery.objects.exists()
