"""Attacks with a role for one schema: sources and systems belong to no schema, so changing them is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from architecture.models import ChangeReport, Refresh
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Permission, Role
from elevata.accounts.services.users import grant_role
from elevata.core.errors import MetadataError
from elevata.web.views import Page
from loader.contract.refusals import Refusal
from loader.models import SourceProposal
from loader.selectors.affected import subject_of
from loader.services.affected import notify_owners
from loader.services.sources.checks import check_source
from loader.services.sources.uploads import store_delivery, store_upload
from metadata.models import SourceDataset, TargetDataset
from metadata.services.copies import create_copy, delete_copy, update_copy
from metadata.services.datasets.targets import create_schema
from tests.architecture.services.test_reports import rename
from tests.architecture.world import World, person
from tests.attacks.requests import send
from tests.factories import SourceDatasetFactory, SystemFactory

# Pages of editors that change metadata of datasets; their services check the dataset's schema.
CHECKED_BY_ROW = (
    *("metadata.", "architecture.views.", "loader.views.affected."),
    *("loader.views.datasets.", "loader.views.sources.metadata_import."),
)


@pytest.fixture
def source(landing: Path) -> SourceDataset:
    (landing / "orders.csv").write_text("id,amount\n1,10\n")
    system = SystemFactory(short_name="shop", location=str(landing))
    return SourceDatasetFactory(system=system, name="orders", location="orders.csv", format="csv")


@pytest.fixture
def schema_editor(airport: TargetDataset) -> Client:
    """Return a client signed in as Ed, an editor of the schema of airports without any other role."""
    user = person("eds")
    grant_role(user=user, role=Role.EDITOR, schema=airport.schema.name)
    client = Client()
    client.force_login(user)
    return client


def forged() -> SimpleUploadedFile:
    return SimpleUploadedFile("orders.csv", b"id,amount\n1,999\n")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "address"),
    [
        ("post", "/sources/{source.key}/upload/"),
        ("post", "/systems/shop/upload/"),
        ("get", "/systems/shop/discover/"),
        ("post", "/systems/shop/test/"),
        ("get", "/systems/shop/delivery/?location=orders.csv"),
        ("get", "/systems/shop/import/?location=orders.csv"),
        ("post", "/sources/{source.key}/check/"),
        ("get", "/add-source/"),
        ("post", "/add-source/jdbc/test/"),
    ],
)
def test_source_pages_refuse_schema_roles(
    schema_editor: Client, source: SourceDataset, landing: Path, method: str, address: str
):
    sent = {"file": forged(), "location": "orders.csv"} if method == "post" else {}
    answer = getattr(schema_editor, method)(address.format(source=source), sent) if sent else schema_editor.get(address)
    assert answer.status_code == 403, answer.content[:300]
    assert (landing / "orders.csv").read_text() == "id,amount\n1,10\n"
    assert [path.name for path in landing.iterdir()] == ["orders.csv"]


@pytest.mark.django_db
def test_source_check_by_rest_refuses_schema_roles(schema_editor: Client, source: SourceDataset):
    assert send(schema_editor, "post", "source-checks/", {"source": str(source.key)}).status_code == 403
    assert not SourceProposal.objects.exists()


@pytest.mark.django_db
def test_source_services_refuse_schema_roles(schema_editor: Client, source: SourceDataset, landing: Path):
    user = schema_editor.get("/").wsgi_request.user
    for act in (
        lambda: store_upload(system=source.system, name="new.csv", chunks=[b"id\n1\n"]),
        lambda: store_delivery(source=source, name="orders.csv", chunks=[b"id,amount\n1,999\n"]),
        lambda: check_source(source=source, renew=True),
    ):
        with acting_as(user), pytest.raises(MetadataError) as refused:
            act()
        assert refused.value.code == "not_permitted"
    assert [path.name for path in landing.iterdir()] == ["orders.csv"]


@pytest.mark.django_db
def test_owners_of_other_schemas_are_not_notified_by_schema_roles(schema_editor: Client, airport: TargetDataset):
    other = TargetDataset.objects.exclude(schema=airport.schema).filter(history_of=None).first()
    user = schema_editor.get("/").wsgi_request.user
    with acting_as(user), pytest.raises(MetadataError) as refused:
        notify_owners(subject=subject_of("dataset", str(other.key)), user=user)
    assert refused.value.code == "not_permitted"
    with acting_as(user), pytest.raises(Refusal, match="owner"):
        notify_owners(subject=subject_of("dataset", str(airport.key)), user=user)


@pytest.mark.django_db
def test_copies_to_a_system_refuse_schema_roles(schema_editor: Client, airport: TargetDataset):
    """Check that copies need a role everywhere, because a copy uses its system's secret and replaces a table there."""
    bi = SystemFactory(short_name="bi", kind="jdbc", location="postgresql://bi@db.example.org/bi")
    with acting_as(None):
        copy = create_copy(dataset=airport, to=bi)
    user = schema_editor.get("/").wsgi_request.user
    for act in (
        lambda: create_copy(dataset=airport, to=bi, table="public.accounts"),
        lambda: update_copy(copy=copy, expected_version=copy.version, table="public.accounts"),
        lambda: delete_copy(copy=copy, expected_version=copy.version),
    ):
        with acting_as(user), pytest.raises(MetadataError) as refused:
            act()
        assert refused.value.code == "not_permitted"
    body = {"dataset": str(airport.key), "to": "bi", "table": "public.accounts"}
    assert send(schema_editor, "post", "copies/", body).status_code == 403
    page = schema_editor.get(f"/datasets/{airport.key}/copies/").content.decode()
    assert "Add copy" not in page


def pages(patterns: list[URLPattern | URLResolver]) -> Iterator[type[Page]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from pages(pattern.url_patterns)
        elif isinstance(view := getattr(pattern.callback, "view_class", None), type) and issubclass(view, Page):
            yield view


def test_every_page_of_editors_has_a_place_or_a_service_that_checks_the_row():
    anywhere = {
        f"{page.__module__}.{page.__name__}"
        for page in pages(get_resolver().url_patterns)
        if page.permissions and Permission.CHANGE_METADATA in page.permissions and page.place is None
    }
    assert {name for name in anywhere if not name.startswith(CHECKED_BY_ROW)} == set()


@pytest.mark.django_db
def test_refresh_needs_a_role_for_the_tables_it_reads(airport: TargetDataset):
    """Check that a schema role permits refreshes of that schema only, and no drift check of the environment."""
    olga, client = person("olga"), Client()
    for role in (Role.OPERATOR, Role.EDITOR):
        grant_role(user=olga, role=role, schema=airport.schema.name)
    client.force_login(olga)
    other = TargetDataset.objects.exclude(schema=airport.schema).filter(history_of=None).first()
    requests = {
        "drift/check/": [{}],
        "refreshes/": [
            {},
            {"kind": "schema", "name": other.schema.name},
            {"kind": "selection", "name": f"{airport} {other}"},
            {"kind": "dataset", "name": str(other)},
        ],
    }
    for path, bodies in requests.items():
        for body in bodies:
            answer = send(client, "post", path, body)
            assert (answer.status_code, answer.json()["code"]) == (403, "NOT_PERMITTED"), (path, body, answer.content)
    assert client.post("/drift/refresh/").status_code == 403
    assert not Refresh.objects.exists()
    for body in ({"kind": "schema", "name": airport.schema.name}, {"kind": "dataset", "name": str(airport)}):
        assert send(client, "post", "refreshes/", body).status_code == 202


@pytest.mark.django_db
def test_reports_are_created_only_with_a_role_for_their_scope(schema_editor: Client, airport: TargetDataset):
    """Check reports from stored observations, too: a new report supersedes the open reports of its scope."""
    other = TargetDataset.objects.exclude(schema=airport.schema).filter(history_of=None).first()
    foreign = [
        {"kind": "all"},
        {"kind": "schema", "name": other.schema.name},
        {"kind": "selection", "name": f"{airport} {other}"},
        {"kind": "dataset", "name": str(other)},
    ]
    for body in foreign:
        answer = send(schema_editor, "post", "reports/", body)
        assert (answer.status_code, answer.json()["code"]) == (403, "NOT_PERMITTED"), (body, answer.content)
    page = schema_editor.post("/reports/make/", {"scope": "dataset", "dataset": str(other), "last": "1"})
    assert page.status_code == 403
    assert not ChangeReport.objects.exists()
    own = send(schema_editor, "post", "reports/", {"kind": "dataset", "name": str(airport)})
    assert own.json().get("code") != "NOT_PERMITTED", own.content


@pytest.mark.django_db
def test_undo_reports_are_created_only_with_a_role_for_their_datasets(world: World):
    rename(world, "full_name", "display_name")
    execution, user, client = world.executed(), person("elsa"), Client()
    create_schema(name="mart", layer="serving")
    grant_role(user=user, role=Role.EDITOR, schema="mart")
    client.force_login(user)
    answer = send(client, "post", f"records/{execution.record.record_id}/undo/", {})
    assert (answer.status_code, answer.json()["code"]) == (403, "NOT_PERMITTED"), answer.content
    assert client.post(f"/executions/{execution.pk}/undo/").status_code == 403
    assert not ChangeReport.objects.filter(undo_of__isnull=False).exists()
