"""Search on pages: ranks, permissions, and unusual texts."""

from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import NoReverseMatch, reverse

from elevata.lists.models import SavedFilter
from elevata.web.search import KINDS, PageKind, Rank, Result, search
from loader.services.reads.queries import save_query
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.lifecycle import rename_column
from tests.elevata.web.html import html_of
from tests.elevata.web.permissions import patterns
from tests.factories import SourceColumnFactory, SourceDatasetFactory, airport_source
from tests.loader.factories import ExecutionFactory

pytestmark = pytest.mark.django_db

PATTERNS = patterns()

WORDS = {
    "icao": {"key_ordinal": 1},
    "code": {},
    "code_set": {},
    "zip_code": {},
    "barcode": {},
    "label": {"description": "The code of the label."},
    "title": {"tags": ["code"]},
}


def results_of(text: str, user: User, kind: str = "") -> list[Result]:
    return [result for result in search(text, user=user, limit=50)[0] if kind in ("", result.kind)]


def test_search_ranks_exact_names_first_and_descriptions_last(person: User):
    airport_source(**WORDS)
    ranks = {result.name: result.rank for result in results_of("code", person, "source_column")}
    assert list(ranks.items()) == [
        ("code", Rank.EXACT),
        ("code_set", Rank.PREFIX),
        ("zip_code", Rank.WORD),
        ("barcode", Rank.PART),
        ("label", Rank.DESCRIPTION),
        ("title", Rank.DESCRIPTION),
    ]


def test_a_former_name_comes_before_descriptions(person: User, airport: TargetDataset):
    column = airport.columns.get(name="elevation")
    rename_column(column=column, name="height", expected_version=column.version)
    ranks = {result.name: result.rank for result in results_of("elevation", person, "column")}
    assert ranks["height"] == Rank.FORMER_NAME


def test_a_column_is_found_in_source_stage_rawcore_and_history(person: User, airport: TargetDataset):
    places = {result.within for result in results_of("icao", person) if result.name == "icao"}
    assert places >= {"air.airport", "stage.stg_air_airport", "rawcore.rc_air_airport", "rawcore.rc_air_airport_hist"}


def test_a_qualified_name_finds_the_column_of_that_dataset(person: User, airport: TargetDataset):
    result = results_of("rawcore.rc_air_airport.icao", person)[0]
    assert (result.kind, result.within, result.rank) == ("column", "rawcore.rc_air_airport", Rank.EXACT)


def test_search_requires_all_words_of_the_text(person: User):
    airport_source(**WORDS)
    assert [result.name for result in results_of("label code", person, "source_column")] == ["label"]


def test_a_short_text_finds_beginnings_of_names_only(person: User):
    airport_source(**WORDS)
    assert [result.name for result in results_of("ic", person)] == ["icao"]


@pytest.mark.parametrize(("text", "name"), [("elevaton", "elevation"), ("airprt", "rc_air_airport")])
def test_a_misspelled_name_is_found(person: User, airport: TargetDataset, text: str, name: str):
    results = results_of(text, person)
    assert name in [result.name for result in results]
    assert {result.rank for result in results} == {Rank.SIMILAR}


def test_a_text_unlike_every_name_finds_nothing(person: User, airport: TargetDataset):
    assert results_of("xyzzy quux", person) == []


def test_a_dataset_with_a_date_finds_its_table_as_of_then(person: User, airport: TargetDataset):
    result = results_of("rc_air_airport LGA 2024-01-31 14:00", person)[0]
    assert result.name == "rc_air_airport LGA as of 2024-01-31 14:00"
    assert result.page.endswith("?at=2024-01-31T14%3A00%3A00&find=LGA")


@pytest.mark.parametrize("name", ["rc_air_airport", "RAWCORE.rc_air_airport", "airport"])
def test_a_dataset_with_a_key_finds_the_versions_of_the_key(person: User, airport: TargetDataset, name: str):
    result = results_of(f"{name} EDDB", person)[0]
    assert (result.name, result.within) == ("Versions of EDDB", "rawcore.rc_air_airport")
    assert result.page == f"/datasets/{airport.key}/history/?q=EDDB"


@pytest.mark.parametrize("text", ["rc_air_airport icao", "air EDDB", "rc_air_airport", "rc_air_airport 2024-01-31"])
def test_a_text_without_a_key_finds_no_versions(person: User, airport: TargetDataset, text: str):
    assert results_of(text, person, "versions") == []


def test_a_date_that_is_in_no_calendar_finds_no_table(person: User, airport: TargetDataset):
    assert results_of("rc_air_airport 2024-02-31", person, "as_of") == []


@pytest.mark.parametrize("text", ["ada", "new user", "new dataset", "webhooks"])
def test_search_omits_results_the_user_may_not_open(person: User, starter: User, text: str):
    User.objects.create_user("adam")
    assert results_of(text, person) == []
    assert results_of(text, starter) != []


# Routes without arguments that the search does not list.
UNLISTED = {
    "parts of pages, which htmx loads": {
        *("home_now", "home_warehouse", "home_charts", "notice_bell", "inbox_rows", "comment_users", "pending_changes"),
        *("model_preview", "model_builder", "model_completions", "sql_completions", "sql_tree", "schedule_times"),
        *("next_step", "load_blocks"),
    },
    "sent by a button": {
        *("sign_out", "notices_read", "filter_save", "columns_choose", "favourite", "datasets_edit", "sources_edit"),
        "listed_columns_edit",
        *("datasets_report", "datasets_load", "report_build", "drift_refresh", "drift_adopt", "trial_run", "sql_run"),
        *("saved_query_save", "affected_notify", "health_check"),
    },
    "about an object that the address names": {"affected", "affected_file"},
    "before signing in": {"sign_in", "sso", "sso_callback", "own_password"},
    "for programs": {"healthz", "readyz", "metrics"},
    "files of a page that is listed": {"column_lineage_file", "column_lineage_events", "change_file"},
    "the search itself": {"search"},
}


def test_every_page_without_arguments_is_found():
    listed = {entry.route for kind in KINDS if isinstance(kind, PageKind) for entry in kind.entries}
    routes = {name for name in PATTERNS if not name.startswith(("api-", "unnamed")) and _is_bare(name)}
    assert routes - listed == set().union(*UNLISTED.values())


def _is_bare(route: str) -> bool:
    try:
        return bool(reverse(route))
    except NoReverseMatch:
        return False


@pytest.mark.parametrize("kind", [kind for kind in KINDS if isinstance(kind, PageKind)], ids=lambda kind: kind.name)
def test_every_entry_is_found_by_its_label(kind: PageKind):
    admin = User.objects.create_superuser("root")
    for entry in kind.entries:
        assert entry.label in [result.name for result in results_of(entry.label, admin, kind.name)]


def test_start_load_opens_its_form(operator: Client, starter: User):
    (result,) = [result for result in results_of("start load", starter) if result.key == "run_start"]
    answer = operator.get(result.page, follow=True)
    assert answer.redirect_chain[-1][0] == "/load-runs/?start=#start"
    assert '<details class="panel" id="start" open>' in html_of(answer)


def test_an_execution_is_found_by_its_number(person: User):
    execution = ExecutionFactory(reason="load run nightly")
    for text in (f"execution {execution.pk}", "nightly"):
        assert [result.page for result in results_of(text, person, "execution")] == [f"/executions/{execution.pk}/"]


def test_search_finds_a_private_saved_filter_only_for_its_owner(person: User, starter: User):
    SavedFilter.objects.create(owner=starter, route="dataset_list", name="raw tables", query="layer=raw")
    assert [result.page for result in results_of("raw tables", starter)] == ["/datasets/?layer=raw"]
    assert results_of("raw tables", person) == []


def test_a_misspelled_name_of_a_user_is_found(person: User):
    User.objects.create_user("katharina")
    admin = User.objects.create_superuser("root")
    assert [result.name for result in results_of("kathrina", admin, "user")] == ["katharina"]


def test_search_finds_a_private_saved_query_only_for_its_owner(person: User, starter: User):
    save_query(owner=starter, name="late flights", text="SELECT 1")
    assert results_of("late flights", starter, "saved_query") != []
    assert results_of("late flights", person, "saved_query") == []


@pytest.mark.parametrize("text", ["%", "_", "'", "\\", "%%%", "🛩", '"', "a.b.c.d.e", ".", "x " * 60])
def test_search_treats_wildcards_and_quotes_as_text(reader: Client, text: str):
    airport_source()
    answer = reader.get(f"/search/?q={quote(text)}")
    assert answer.status_code == 200
    assert "airport" not in answer.content.decode().partition("<main")[2]


@pytest.mark.parametrize(
    ("text", "status"), [("\0", 422), ("a" * 201, 422), ("a" * 10_000, 414)], ids=["nul", "long", "too long"]
)
def test_search_refuses_nul_and_texts_that_are_too_long(reader: Client, text: str, status: int):
    assert reader.get(f"/search/?q={quote(text)}").status_code == status


def test_results_have_links_without_scripts(reader: Client, airport: TargetDataset):
    page = reader.get("/search/?q=rc_air_airport").content.decode()
    assert f'href="/datasets/{airport.key}/"' in page


def test_the_dialog_gets_options_only(reader: Client, airport: TargetDataset):
    part = reader.get("/search/?q=rc_air_airport", headers={"HX-Request": "true"}).content.decode()
    assert 'role="option"' in part
    assert "<html" not in part


def test_the_number_of_queries_does_not_depend_on_the_number_of_rows(
    person: User, airport: TargetDataset, django_assert_max_num_queries
):
    with django_assert_max_num_queries(32):
        search("icao", user=person, limit=50)
    source = SourceDatasetFactory(system__short_name="net", name="route")
    SourceColumnFactory(dataset=source, name="icao", key_ordinal=1)
    generate_targets(source_dataset=source)
    assert TargetColumn.objects.filter(name="icao").count() > 3
    with django_assert_max_num_queries(32):
        search("icao", user=person, limit=50)


def test_parts_of_column_names_are_found_by_an_index(airport: TargetDataset):
    columns = TargetColumn.objects.filter(name__icontains="evat").order_by()
    if connection.vendor != "postgresql":
        assert [column.name for column in columns] != []
        return
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    assert "metadata_targetcolumn_name_trigrams" in columns.explain()
