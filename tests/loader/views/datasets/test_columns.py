"""List of columns: filters, failed checks, CSV, and edits of columns of several datasets."""

import re

import pytest
from django.test import Client

from elevata.accounts.models import RoleGrant
from elevata.accounts.roles import Role
from metadata.models import TargetColumn, TargetDataset
from metadata.services.quality import create_check
from tests.architecture.world import person
from tests.elevata.web.html import html_of, text_of
from tests.elevata.web.pages import downloaded, signed_in
from tests.factories import TargetColumnFactory, TargetDatasetFactory
from tests.loader.factories import check_result

pytestmark = pytest.mark.django_db

EDIT = "/columns/selected/edit/"


@pytest.fixture
def people() -> TargetDataset:
    dataset = TargetDatasetFactory(name="person")
    TargetColumnFactory(dataset=dataset, name="email", pii=True, owner="hr", tags=["contact"])
    money = {"data_type": "decimal", "precision": 9, "scale": 2}
    TargetColumnFactory(dataset=dataset, name="salary", description="A year.", **money)
    return dataset


def listed_columns(client: Client, query: str) -> list[str]:
    """Return the names of the columns in the list."""
    rows = html_of(client.get(f"/columns/?{query}"))
    return re.findall(r'#column-[^"]+">([^<]+)</a>', rows)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["email", "salary"]),
        ("q=mail", ["email"]),
        ("pii=true", ["email"]),
        ("pii=false", ["salary"]),
        ("type=decimal", ["salary"]),
        ("owner=HR", ["email"]),
        ("tag=contact", ["email"]),
        ("tag=tact", []),
        ("described=true", ["salary"]),
        ("described=false", ["email"]),
        ("schema=rawcore", ["email", "salary"]),
        ("layer=raw", []),
        ("ordering=-name", ["salary", "email"]),
    ],
)
def test_columns_of_all_datasets_are_filtered(reader: Client, people: TargetDataset, query: str, names: list[str]):
    assert listed_columns(reader, query) == names


def test_column_named_by_a_check_whose_newest_result_failed_is_failing(reader: Client, people: TargetDataset):
    check = create_check(dataset=people, name="salary is there", kind="not_null", arguments={"columns": ["salary"]})
    assert listed_columns(reader, "failing=true") == []
    check_result(check, "warned")
    assert listed_columns(reader, "failing=true") == ["salary"]
    assert listed_columns(reader, "failing=false") == ["email"]
    assert "salary is there" in text_of(reader, "/columns/?failing=true")
    check_result(check, "passed")
    assert listed_columns(reader, "failing=true") == []


def test_file_of_the_list_has_every_filtered_column(reader: Client, people: TargetDataset):
    rows = downloaded(reader, "/columns/?format=csv&pii=true")
    assert [(row["column"], row["dataset"], row["personal"], row["tags"]) for row in rows] == [
        ("email", "rawcore.person", "yes", "contact")
    ]


def test_columns_of_several_datasets_are_tagged_together(editor: Client, people: TargetDataset):
    other = TargetColumnFactory(dataset=TargetDatasetFactory(name="office"), name="phone")
    keys = [str(other.key), str(people.columns.get(name="email").key)]
    preview = html_of(editor.post(EDIT, {"do": "add_tags", "key": keys, "tags": "gdpr", "preview": "yes"}))
    versions = re.findall(r'name="seen" value="([^"]+)"', preview)
    answer = editor.post(EDIT, {"do": "add_tags", "seen": versions, "tags": "gdpr", "save": "yes", "filters": "q=m"})
    assert (answer.status_code, answer["Location"]) == (302, "/columns/?q=m")
    assert [row.tags for row in TargetColumn.objects.filter(key__in=keys).order_by("name")] == [
        ["contact", "gdpr"],
        ["gdpr"],
    ]


def test_columns_of_other_schemas_than_the_users_are_refused(people: TargetDataset):
    user = person("eve")
    RoleGrant.objects.create(user=user, role=Role.EDITOR, schema="mart")
    client, column = signed_in(user), people.columns.get(name="email")
    preview = html_of(client.post(EDIT, {"do": "owner", "key": str(column.key), "owner": "eve", "preview": "yes"}))
    assert "needs the editor role there, which eve does not have" in preview
    version = f"{column.key}:{column.version}"
    answer = client.post(EDIT, {"do": "owner", "seen": version, "owner": "eve", "save": "yes"})
    column.refresh_from_db()
    assert (answer.status_code, column.owner) == (409, "hr")


def test_reader_selects_no_columns(reader: Client, people: TargetDataset):
    assert "data-selection" not in html_of(reader.get("/columns/"))
