"""Empty lists: their purpose, the first action, and the role that it requires."""

import re

import pytest
from django.test import Client

from metadata.models import TargetDataset
from tests.elevata.web.html import html_of

pytestmark = pytest.mark.django_db

LISTS = (
    *("/", "/inbox/", "/datasets/", "/schemas/", "/sources/", "/load-runs/", "/schedules/", "/leases/"),
    *("/reports/", "/executions/", "/drift/", "/changes/", "/notices/"),
)


def empty_part(client: Client, address: str) -> str:
    """Return the text shown in place of an empty list; of the home page, the panel of first steps."""
    text = html_of(client.get(address))
    begins = 'class="first-steps"' if address == "/" else 'class="empty-page"'
    start = text.index(begins)
    return text[start : text.index("</section>" if address == "/" else "</div>", start)]


def links(part: str) -> set[str]:
    return set(re.findall(r'href="([^"]*)"', part))


@pytest.mark.parametrize("address", LISTS)
def test_an_empty_list_says_what_to_do_first(operator: Client, address: str):
    part = empty_part(operator, address)
    words = re.sub(r"<[^>]+>", " ", part).split()
    assert len(words) > 15
    assert links(part) or "<code" in part


@pytest.mark.parametrize("address", LISTS)
def test_empty_list_links_only_to_pages_the_user_may_open(reader: Client, address: str):
    for link in links(empty_part(reader, address)):
        assert link.startswith("#") or reader.get(link).status_code == 200, link


@pytest.mark.parametrize(
    ("address", "role"),
    [
        ("/datasets/", "editor role"),
        ("/schemas/", "editors create schemas"),
        ("/changes/", "editor role"),
        ("/load-runs/", "operator role"),
        ("/schedules/", "operator role"),
        ("/executions/", "operator role"),
        ("/drift/", "operator role"),
        ("/reports/", "editor, approver or operator role"),
    ],
)
def test_empty_list_names_the_required_role_to_users_without_it(
    reader: Client, operator: Client, address: str, role: str
):
    assert role in empty_part(reader, address)
    assert role not in empty_part(operator, address)


@pytest.mark.parametrize(
    ("address", "first"),
    [
        ("/datasets/", "/datasets/new/"),
        ("/schemas/", "/schemas/new/"),
        ("/schedules/", "/schedules/new/"),
        ("/changes/", "/datasets/new/"),
    ],
)
def test_empty_list_links_to_the_form_for_users_who_may_create(operator: Client, address: str, first: str):
    assert first in links(empty_part(operator, address))


def test_empty_run_and_report_lists_link_to_their_start_forms_if_datasets_exist(
    operator: Client, airport: TargetDataset
):
    assert "#start" in links(empty_part(operator, "/load-runs/"))
    assert "#build" in links(empty_part(operator, "/reports/"))


def test_dataset_without_loads_links_to_start_load_and_names_the_role(reader: Client, airport: TargetDataset):
    part = empty_part(reader, f"/datasets/{airport.key}/runs/")
    assert "/load-runs/?start=#start" in links(part)
    assert "operator role" in part
