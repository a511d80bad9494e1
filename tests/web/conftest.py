"""People, and a small warehouse to look at."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from architecture.models import ChangeReport
from metadata.domain.roles import Role
from metadata.models import SourceDataset, System, TargetDataset
from metadata.services.generation import generate_targets
from metadata.services.references import create_reference
from tests.architecture.world import World, make_built_world
from tests.architecture.world import person as someone
from tests.factories import SourceColumnFactory, SourceDatasetFactory, SystemFactory, airport_source
from tests.loader_factories import REFUSAL, DatasetRunFactory, LoadRunFactory, loaded
from tests.web.controlling import needing, rename
from tests.web.shop import ORDERS


@pytest.fixture(autouse=True)
def quick_passwords(settings) -> None:
    """Hashing a password well takes most of a second."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def person(db) -> User:
    """Ada only reads."""
    user = User.objects.create_user("ada", password="analytical engine")
    user.groups.add(Group.objects.get(name=Role.VIEWER))
    return user


@pytest.fixture
def nobody(db) -> Client:
    """Nora is signed in and has no role."""
    client = Client()
    client.force_login(User.objects.create_user("nora", password="analytical engine"))
    return client


@pytest.fixture
def starter(db) -> User:
    """May start and cancel load runs, decide on reports, execute them, change metadata, manage what admins manage."""
    user = User.objects.create_user("eve", password="analytical engine")
    allowed = (
        "read_metadata",
        "read_data",
        "start_load",
        "approve_reports",
        "execute_reports",
        "manage_policies",
        "change_metadata",
        "manage_people",
        "manage_webhooks",
    )
    user.user_permissions.add(*Permission.objects.filter(codename__in=allowed))
    return user


@pytest.fixture
def reader(client: Client, person: User) -> Client:
    client.force_login(person)
    return client


@pytest.fixture
def operator(starter: User) -> Client:
    client = Client()
    client.force_login(starter)
    return client


@pytest.fixture
def airport(db) -> TargetDataset:
    """``rawcore.rc_air_airport`` with all that is generated beside it, not loaded yet."""
    generate_targets(source_dataset=airport_source())
    return TargetDataset.objects.get(name="rc_air_airport")


@pytest.fixture
def add_routes() -> Callable[[TargetDataset], TargetDataset]:
    """Describes routes that refer to airports."""

    def add(airport: TargetDataset) -> TargetDataset:
        source = SourceDatasetFactory(system__short_name="net", name="route")
        SourceColumnFactory(dataset=source, name="route_no", key_ordinal=1)
        SourceColumnFactory(dataset=source, name="origin_icao")
        generate_targets(source_dataset=source)
        routes = TargetDataset.objects.get(name="rc_net_route")
        pair = (routes.columns.get(name="origin_icao"), airport.columns.get(name="icao"))
        create_reference(child=routes, parent=airport, role_name="origin", pairs=[pair])
        return routes

    return add


@pytest.fixture
def warehouse(airport: TargetDataset, add_routes: Callable) -> TargetDataset:
    """Airports and routes; one run succeeded, one failed, one is under way. The airports' dataset."""
    routes = add_routes(airport)
    raw = TargetDataset.objects.get(name="raw_air_airport")
    loaded(raw, airport, routes, run_id="good")
    failed = LoadRunFactory(run_id="bad", status="failed", error={"code": "X", "message": "1 dataset failed"})
    DatasetRunFactory(run=failed, dataset=raw, status="failed", counts={}, error=REFUSAL)
    DatasetRunFactory(run=failed, dataset=airport, status="skipped", counts={}, skipped_because="raw.raw_air_airport")
    running = LoadRunFactory(run_id="busy", status="running", phase="loading")
    DatasetRunFactory(
        run=running,
        dataset=raw,
        drift=[{"name": "lid", "type": "string"}],
        warnings=["half of it came twice"],
        counts={"rows": 3, "duplicates": 1},
    )
    DatasetRunFactory(run=running, dataset=airport, status="queued", counts={}, depends_on=[str(raw.key)], seconds=None)
    return airport


@pytest.fixture
def world(db) -> World:
    """Ada, bob and olga with a warehouse that obeys: customers are built, and nothing is pending."""
    return make_built_world()


@pytest.fixture
def renamed(world: World) -> ChangeReport:
    """An open report of a rename, which needs one approval."""
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    return world.report()


@pytest.fixture
def viewer(db) -> Client:
    """Vera only reads."""
    client = Client()
    client.force_login(someone("vera", Role.VIEWER))
    return client


@pytest.fixture
def editor(db) -> Client:
    """Mia edits metadata."""
    client = Client()
    client.force_login(someone("mia", Role.EDITOR))
    return client


@pytest.fixture
def source(airport: TargetDataset) -> SourceDataset:
    return SourceDataset.objects.get(name="airport")


@pytest.fixture
def landing(tmp_path: Path, settings: Any) -> Path:
    """The one folder that sources may stand in, with the orders of a shop."""
    folder = tmp_path / "landing"
    folder.mkdir()
    settings.SOURCE_ROOTS = [str(folder)]
    (folder / "orders.csv").write_text(ORDERS)
    return folder


@pytest.fixture
def shop(landing: Path, db: None) -> System:
    return SystemFactory(short_name="shop", name="Shop", location=str(landing))
