"""Every kind of source has an example in examples/sources, whose orders reach rawcore through a real worker."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import yaml
from django.conf import settings

from metadata.domain.sources.formats import NAMES
from tests.fixtures.source_database import own_schema, server_place
from tests.loader.fivetran.sender import fivetran_service
from tests.loader.installation import Installation, make_installation, working
from tests.loader.readers.rest.api_server import Answer, api_server
from tests.services.kafka import running_broker
from tests.services.mariadb import JARS, start_mariadb

# Embedded stores, even if the session uses servers: the installation has a data folder of its own.
pytestmark = [pytest.mark.spark, pytest.mark.takes(seconds=10)]

FOLDER = Path(settings.BASE_DIR) / "examples" / "sources"
DATA = FOLDER / "data"
FILES = ("csv", "fixed_width", "json", "json_lines", "xml", "excel", "parquet", "orc", "avro", "delta")
ORDERS = [
    ("1", "Ann", "12.50", "2026-01-01"),
    ("2", "Ben", "7.00", "2026-01-02"),
    ("3", "Zoë", "100.25", "2026-01-03"),
]


@contextmanager
def postgresql() -> Iterator[str]:
    place = server_place()
    with own_schema("sales", (DATA / "orders.sql").read_text().replace("CREATE SCHEMA sales;", "")):
        yield f"postgresql://{place.user}@{place.host}:{place.port}/{place.name}"


@contextmanager
def rest() -> Iterator[str]:
    with api_server() as server:
        server.serve("/orders.json", Answer((DATA / "orders.json").read_bytes()))
        yield server.url


@contextmanager
def kafka() -> Iterator[str]:
    with running_broker() as broker:
        broker.create_again("orders")
        broker.send("orders", [(None, line) for line in (DATA / "orders.jsonl").read_text().splitlines()])
        yield f"kafka://{broker.address}"


SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {"postgresql": postgresql, "rest": rest, "kafka": kafka}


@contextmanager
def installation(folder: Path, *, compiled: bool = False, **variables: str) -> Iterator[Installation]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"ELEVATA_SOURCE_HOSTS": "127.0.0.1", **variables}.items():
            patch.setenv(name, value)
        made = make_installation(folder)
        with working(made, compiled=compiled):
            yield made


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installation(tmp_path_factory.mktemp("examples") / "data") as made:
        yield made


@pytest.fixture(scope="module")
def loaded_files(shop: Installation) -> Installation:
    """Load the examples of all file formats by one run."""
    for kind in FILES:
        shop.import_text((FOLDER / f"{kind}.yaml").read_text(), by="edda")
    shop.load("files-1", "--select", " ".join(f"+rawcore.rc_{kind}_orders" for kind in FILES))
    return shop


def orders_of(shop: Installation, kind: str) -> list[tuple]:
    return shop.rows(f"rawcore.rc_{kind}_orders", "id", "customer", "amount", "ordered_on")


def loaded_orders(shop: Installation, kind: str, location: str) -> list[tuple]:
    """Import an example with the location of its server, load it, and return the orders in rawcore."""
    text = (FOLDER / f"{kind}.yaml").read_text()
    shop.import_text(re.sub(r"location: \w+://\S+", f"location: {location}", text), by="edda")
    shop.load(f"{kind}-1", "--dataset", f"rawcore.rc_{kind}_orders")
    return orders_of(shop, kind)


@pytest.mark.core
def test_every_format_has_an_example_and_every_example_a_test():
    described = [yaml.safe_load(path.read_text())["system"] for path in FOLDER.glob("*.yaml")]
    assert {system["datasets"][0]["format"] for system in described} == set(NAMES)
    assert {system["short_name"] for system in described} == {*FILES, *SERVERS, "mariadb"}


@pytest.mark.core(each=True)
@pytest.mark.parametrize("kind", FILES)
def test_the_example_of_a_file_format_is_loaded(loaded_files: Installation, kind: str):
    assert orders_of(loaded_files, kind) == ORDERS


def test_example_is_loaded_by_a_runner_that_compiles_expressions(tmp_path: Path):
    with installation(tmp_path / "data", compiled=True) as shop:
        shop.import_text((FOLDER / "csv.yaml").read_text(), by="edda")
        shop.load("csv-1", "--dataset", "rawcore.rc_csv_orders")
        assert orders_of(shop, "csv") == ORDERS


@pytest.mark.servers
@pytest.mark.parametrize("kind", SERVERS)
def test_the_example_of_a_server_is_loaded(shop: Installation, kind: str):
    with SERVERS[kind]() as location:
        assert loaded_orders(shop, kind, location) == ORDERS


@pytest.mark.nightly
@pytest.mark.servers
def test_the_example_of_mariadb_is_loaded_with_its_driver(tmp_path: Path):
    reader = ("CREATE USER reader@'127.0.0.1'", "GRANT SELECT ON sales.orders TO reader@'127.0.0.1'")
    statements = [part for part in (DATA / "orders.sql").read_text().split(";") if part.strip()]
    server = start_mariadb(tmp_path / "mariadb", ("SET NAMES utf8mb4", *statements, *reader))
    try:
        with installation(tmp_path / "data", ELEVATA_SPARK_JARS=str(JARS)) as shop:
            assert loaded_orders(shop, "mariadb", f"mariadb://reader@127.0.0.1:{server.port}/sales") == ORDERS
    finally:
        server.stop()


@pytest.mark.servers
def test_the_example_of_fivetran_writes_its_orders(shop: Installation):
    roles = ("--role", "operator", "--role", "editor")
    token = shop.json("create_user", "fay", *roles, "--token")["token"]
    with fivetran_service(shop) as address:
        command = [sys.executable, str(FOLDER / "fivetran.py"), address]
        variables = shop.environment | {"ELEVATA_TOKEN": token}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    assert shop.rows("rawcore.rc_fivetran_orders", "id", "customer", "amount", "ordered_on") == ORDERS
