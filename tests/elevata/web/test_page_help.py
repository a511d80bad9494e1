"""Help of pages: one sentence each, chapters of the documentation, and the glossary."""

import re

import pytest
from django.test import Client

from elevata.bootstrap.places import ROOT
from elevata.core.installation import version
from elevata.help_pages import chapters, glossary
from elevata.page_help import PAGES, docs_address
from tests.elevata.web.html import html_of
from tests.elevata.web.routes import RULES, route_names

# Routes without the top bar.
WITHOUT_HELP = {
    "before signing in": {"sign_in", "sign_out", "sso", "sso_callback"},
    "for programs": {"healthz", "readyz", "metrics"},
    "parts of pages, which htmx loads": {
        *("home_now", "home_warehouse", "home_charts", "inbox_rows", "notice_bell", "comment_users"),
        *("sql_completions", "sql_tree", "model_completions"),
        *("dataset_depends", "column_depends", "inputs_depend", "reference_pairs", "execution_log", "column_cell"),
        *("next_step", "load_blocks"),
    },
    "files": {
        *("read_file", "sql_file", "report_file", "report_approvals", "record_file", "execution_log_file"),
        *("change_file", "column_lineage_file", "column_lineage_events", "run_record"),
        *("affected_file", "dataset_sql_file", "report_sql_file"),
    },
    "sent by a button, with another page as the answer": {
        *("filter_save", "filter_delete", "columns_choose", "favourite", "notices_read", "notice_go", "start_read"),
        *("trial_run", "sql_run", "sql_cancel", "saved_query_save", "datasets_report", "datasets_load", "column_move"),
        *("report_preview", "report_dry_run", "execution_resume", "drift_refresh", "schedule_run", "run_again"),
        *("webhook_test", "delivery_replay", "affected_notify"),
    },
}
LEFT_OUT = frozenset().union(*WITHOUT_HELP.values())


def test_every_page_has_help():
    routes = {name for name in route_names() if not name.startswith("api-")}
    assert sorted(routes - PAGES.keys() - LEFT_OUT) == []
    assert sorted((PAGES.keys() | LEFT_OUT) - routes) == []
    assert sorted(PAGES.keys() & LEFT_OUT) == []


@pytest.mark.parametrize("route", sorted(PAGES))
def test_help_is_one_sentence_and_leads_to_a_chapter(route: str):
    page = PAGES[route]
    assert re.fullmatch(r"[A-Z][^.]*\.", page.text)
    assert page.docs in chapters()


def test_chapters_are_all_that_the_documentation_lists():
    listed = re.findall(r"\]\(((?:use|operate|understand)/\w+\.md)", (ROOT / "docs" / "README.md").read_text())
    assert chapters() == {*listed, "README.md"}


def test_glossary_explains_words_in_their_order():
    words = [word.word for word in glossary()]
    assert {"drift", "lease", "fingerprint", "contract", "rawcore"} <= set(words)
    assert words == sorted(words)


def test_help_links_to_the_published_documentation_if_there_is_one(settings):
    settings.DOCS_URL = "https://docs.example.org/elevata/"
    assert docs_address("use/sources.md") == "https://docs.example.org/elevata/use/sources.md"


@pytest.mark.django_db
def test_every_page_shows_its_help_and_the_version(reader: Client):
    page = html_of(reader.get("/load-runs/"))
    assert PAGES["run_list"].text in page
    assert "/help/docs/use/loading.md" in page
    assert f"elevata {version()}" in page


@pytest.mark.django_db
def test_a_page_of_the_glossary_links_between_words_and_chapters(reader: Client):
    page = html_of(reader.get("/help/glossary/"))
    assert 'id="rawcore"' in page
    assert 'href="/help/docs/use/models.md"' in page


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(chapters()))
def test_every_chapter_is_a_page_whose_links_lead_to_headings(reader: Client, name: str):
    page = html_of(reader.get(f"/help/docs/{name}"))
    assert "<h1>" in page
    for path, anchor in re.findall(r'href="/help/docs/([^"#]+)#([^"]+)"', page):
        assert f'id="{anchor}"' in html_of(reader.get(f"/help/docs/{path}")), f"{path}#{anchor}"


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["use/nothing.md", "../README.md", "use/../../pyproject.toml", "openapi.yaml"])
def test_files_that_are_no_chapters_are_not_found(reader: Client, name: str):
    assert reader.get(f"/help/docs/{name}").status_code == 404


def test_routes_with_help_have_rules_of_access():
    assert PAGES.keys() <= RULES.keys()
