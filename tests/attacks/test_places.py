"""Attacks that read files outside of the allowed folders, or connect to hosts inside the network."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from elevata.core.errors import MetadataError
from elevata.notifications import deliveries
from elevata.notifications.models import Delivery, DeliveryAttempt, Webhook
from elevata.notifications.safe_http import CannotCall
from metadata.models import SourceDataset, System
from metadata.services.sources import create_source_dataset, update_system
from tests.attacks.requests import must_be_refused, send
from tests.elevata.notifications.deliveries import send_due
from tests.elevata.web.forms import typed
from tests.elevata.web.html import text_of
from tests.factories import DeliveryFactory, SystemFactory, WebhookFactory

pytestmark = pytest.mark.django_db

# Ways out of a folder that a check of the text may not see and Hadoop, a glob or a decoder takes.
HIDDEN_WAYS = [
    r".\./private.csv",
    r".\./.\./private.csv",
    r"a/\../private.csv",
    r"\.\./private.csv",
    r"[.][.]/private.csv",
    "foo{/.,zz/}./private.csv",
    "{.,a}./private.csv",
    "{a,b}.csv",
    "%2e%2e/private.csv",
    ".%2E/private.csv",
    "a%2f..%2fprivate.csv",
    "a%5cb.csv",
    "a%00.csv",
    "a\x00.csv",
    "a\nb.csv",
    "a\u202ecsv",
    "\uff0e\uff0e/private.csv",
    "\u2024\u2024/private.csv",
    "a\uff0fb.csv",
    "a/./b.csv",
    "a//b.csv",
    "./a.csv",
    "a/..",
    "[!a].csv",
    "[^a].csv",
    "a[.csv",
    "${user.name}.csv",
    "a/{{ data_dir }}",
    "_delta_log/00000000000000000000.json",
    "x" * 300 + ".csv",
]
OUTSIDE = [
    "/etc",
    "/etc/passwd",
    "/proc/self/environ",
    "{{ data_dir }}",
    "{{ data_dir }}/secret_key",
    "{{ data_dir }}/audit_key",
    "{{ data_dir }}/../..",
    "{landing}/..",
    "{landing}/../private.csv",
    "{landing}/a/../../private.csv",
    "{landing}-beside",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "FILE:///etc",
    "file://localhost/etc",
    "file:///etc%2fpasswd",
    "s3a://bucket/in",
    "http://169.254.169.254/latest/meta-data/",
    "https://127.0.0.1/",
    "hdfs://namenode/",
    "jar:file:///x.jar!/",
    "\\\\host\\share",
    *("{landing}/" + way for way in HIDDEN_WAYS),
]
UPWARDS = [
    "../private.csv",
    "a/../../private.csv",
    "/etc/passwd",
    "..",
    "file:../private.csv",
    "file:/%65tc/passwd",
    "FILE:/etc/passwd",
    "jar:file:/a.jar!/b.csv",
    "har:/a.har/b.csv",
    "webhdfs://namenode/b.csv",
    "s3a://bucket/b.csv",
    "s3a://key:secret@bucket/b.csv",
    "a:b.csv",
    "C:\\private.csv",
    *HIDDEN_WAYS,
    "{{ data_dir }}/secret_key",
    "{{ data_dir }}/audit_key",
]


def placed(location: str, landing: Path) -> str:
    return location.replace("{landing}", str(landing))


@pytest.mark.parametrize("location", OUTSIDE)
def test_a_system_outside_of_the_folders_is_refused_by_rest(operator: Client, landing: Path, location: str):
    body = {"short_name": "shop", "name": "Shop", "location": placed(location, landing)}
    must_be_refused(send(operator, "post", "systems/", body), "place_not_allowed", "parse_error")
    assert not System.objects.exists()


@pytest.mark.parametrize("location", OUTSIDE)
def test_a_system_outside_of_the_folders_is_refused_by_the_form(operator: Client, landing: Path, location: str):
    page = text_of(operator, "/add-source/files/")
    fields = typed(page, having="short_name", name="Shop", short_name="shop", location=placed(location, landing))
    assert operator.post("/add-source/files/", fields).status_code == 422
    assert not System.objects.exists()
    assert operator.post("/add-source/files/", fields | {"location": str(landing)}).status_code == 302


@pytest.mark.parametrize("location", UPWARDS)
def test_source_outside_its_system_is_refused_by_rest(operator: Client, landing: Path, location: str):
    SystemFactory(short_name="shop", location=str(landing))
    body = {"system": "shop", "name": "orders", "location": location}
    must_be_refused(send(operator, "post", "source-datasets/", body), "place_not_allowed", "parse_error")
    assert not SourceDataset.objects.exists()


@pytest.mark.parametrize("location", UPWARDS)
def test_import_page_shows_no_file_outside_the_system(operator: Client, landing: Path, location: str):
    SystemFactory(short_name="shop", location=str(landing))
    text = operator.get("/systems/shop/import/", {"location": location, "show": "now"}).content.decode()
    assert "BAD_LOCATION" in text or "OUTSIDE_ROOTS" in text
    assert "canary-of-a-file" not in text


@pytest.mark.parametrize("location", HIDDEN_WAYS)
def test_services_and_import_refuse_a_location_outside_its_folder(landing: Path, location: str, tmp_path: Path):
    """Check that services and imported files refuse such a location, although they do not check the roots."""
    system = SystemFactory(short_name="shop", location=str(landing))
    with pytest.raises(MetadataError):
        create_source_dataset(system=system, name="orders", location=location)
    with pytest.raises(MetadataError):
        update_system(system=system, expected_version=system.version, location=f"{landing}/{location}")
    described = {"format": "metadata/v1", "system": {"short_name": "net", "name": "Net", "location": str(landing)}}
    described["system"]["datasets"] = [{"name": "orders", "location": location}]
    folder = tmp_path / "metadata"
    folder.mkdir()
    (folder / "a.yaml").write_text(json.dumps(described))
    with pytest.raises(CommandError, match="location|character that cannot be stored"):
        call_command("import_metadata", str(folder))
    assert not SourceDataset.objects.exists()


def test_source_root_does_not_permit_the_data_folder_inside_it(operator: Client, landing: Path, settings: Any):
    data = landing / "data"
    data.mkdir()
    (data / "export.csv").write_text("key,value\ncanary-of-a-file,1\n")
    settings.DATA_DIR, settings.WAREHOUSE = data, str(data / "warehouse")
    SystemFactory(short_name="shop", location=str(landing))
    body = {"system": "shop", "name": "orders"}
    for location in ("data/export.csv", "{{ data_dir }}/export.csv", "data"):
        must_be_refused(send(operator, "post", "source-datasets/", body | {"location": location}), "place_not_allowed")
        answer = operator.get("/systems/shop/import/", {"location": location, "show": "now"})
        assert "canary-of-a-file" not in answer.content.decode()
    (landing / "orders.csv").write_text("key,value\n1,1\n")
    listed = operator.get("/systems/shop/discover/?show=now").content.decode()
    assert ("orders.csv" in listed, "export.csv" in listed) == (True, False)


def test_a_prefix_of_an_object_store_may_be_a_root(operator: Client, landing: Path, settings: Any):
    settings.SOURCE_ROOTS = [str(landing), "s3a://bucket/in/"]
    body = {"short_name": "lake", "name": "Lake", "location": "s3a://bucket/in/orders"}
    assert send(operator, "post", "systems/", body).status_code == 201
    for place in (
        "s3a://bucket/inside",
        "s3a://bucket/",
        "s3a://other/in/",
        "s3a://bucket/in/../x",
        "gs://bucket/in/x",
    ):
        answer = send(operator, "post", "systems/", {"short_name": "x", "name": "X", "location": place})
        must_be_refused(answer, "place_not_allowed")


def test_a_link_out_of_the_folder_is_not_followed(operator: Client, landing: Path):
    (landing / "orders.csv").symlink_to(landing.parent / "private.csv")
    SystemFactory(short_name="shop", location=str(landing))
    text = operator.get("/systems/shop/import/", {"location": "orders.csv", "show": "now"}).content.decode()
    assert ("OUTSIDE_ROOTS" in text, "canary-of-a-file" in text) == (True, False)


def test_import_refuses_a_system_outside_the_permitted_folders(operator: Client, landing: Path):
    file = (
        "format: metadata/v1\nsystem:\n  short_name: shop\n  name: Shop\n  location: /etc\n"
        "  datasets:\n  - name: passwd\n    location: passwd\n    columns:\n    - {name: line, type: string}\n"
    )
    answer = send(operator, "post", "metadata/import/", {"files": [{"name": "a.yaml", "content": file}]})
    must_be_refused(answer)
    assert "outside the folders" in answer.json()["detail"]
    assert not System.objects.exists()


def test_import_refuses_a_key_list_outside_the_permitted_folders(operator: Client, landing: Path):
    file = (
        f"format: metadata/v1\nsystem:\n  short_name: shop\n  name: Shop\n  location: {landing}\n"
        "  datasets:\n  - name: orders\n    location: orders.csv\n"
        "    history_policy: {input: delta, delete_detection: key_list}\n"
        "    intake: {key_list: /etc/passwd}\n"
        "    columns:\n    - {name: id, type: string, business_key: 1}\n"
    )
    answer = send(operator, "post", "metadata/import/", {"files": [{"name": "a.yaml", "content": file}]})
    must_be_refused(answer)
    assert "outside the folders" in answer.json()["detail"]
    assert not System.objects.exists()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "169.254.169.254", "[::1]", "db", "2130706433"])
def test_database_on_an_unlisted_host_is_not_connected(operator: Client, host: str):
    SystemFactory(short_name="erp", kind="jdbc", location=f"postgresql://reader@{host}/erp")
    text = operator.post("/systems/erp/test/").content.decode()
    assert "no host that may be asked" in text or "BAD_LOCATION" in text


@pytest.mark.parametrize("host", ["localhost", "169.254.169.254", "[::1]", "one,127.0.0.1"])
def test_kafka_cluster_on_an_unlisted_host_is_not_connected(operator: Client, host: str):
    SystemFactory(short_name="shop", kind="kafka", location=f"kafka://{host}")
    assert "no host that may be asked" in operator.post("/systems/shop/test/").content.decode()


# --- webhooks ----------------------------------------------------------------------------------

INSIDE = [
    "https://127.0.0.1/",
    "https://localhost/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://169.254.169.254/latest/meta-data/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://0177.0.0.1/",
    "https://0/",
    "https://10.0.0.1:6379/",
    "https://192.168.0.1/",
]
NO_ADDRESS = [
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "ftp://127.0.0.1/",
    "dict://127.0.0.1:11211/",
    "javascript:alert(1)",
    "https://user:pass@127.0.0.1/",
    "https://hooks.example.org/\r\nHost: 127.0.0.1",
    "//127.0.0.1/",
]


@pytest.mark.parametrize("url", INSIDE)
def test_webhook_to_a_private_address_is_never_connected(url: str, monkeypatch: pytest.MonkeyPatch):
    """Check that a webhook's address is refused when it is used, not when it is saved.

    A name may resolve to another address later.
    """
    monkeypatch.setenv("ELEVATA_WEBHOOK_SECRET_TEAM", "x")
    monkeypatch.setattr("elevata.notifications.safe_http.socket.create_connection", _never)
    DeliveryFactory(webhook=WebhookFactory(url=url))
    send_due()
    assert Delivery.objects.get().status == "failed"
    assert "no public address" in DeliveryAttempt.objects.get().error


def _never(*_: Any, **__: Any) -> None:
    raise AssertionError("connected")


@pytest.mark.parametrize("url", NO_ADDRESS)
def test_invalid_webhook_url_is_refused_by_rest(operator: Client, url: str):
    body = {"name": "x", "url": url, "events": ["load.failed"], "secret": "ELEVATA_WEBHOOK_SECRET_X"}
    must_be_refused(send(operator, "post", "webhooks/", body), "bad_url")
    assert not Webhook.objects.exists()


@pytest.mark.parametrize("url", NO_ADDRESS)
def test_invalid_webhook_url_is_refused_by_the_form(operator: Client, url: str):
    fields = {"name": "x", "format": "signed", "events": ["load.failed"], "secret": "ELEVATA_WEBHOOK_SECRET_X"}
    assert operator.post("/webhooks/new/", fields | {"url": url}).status_code == 422
    assert not Webhook.objects.exists()
    assert operator.post("/webhooks/new/", fields | {"url": "https://hooks.example.org/"}).status_code == 302


@pytest.mark.parametrize("name", ["ELEVATA_SECRET_KEY", "DATABASE_URL", "PATH", "ELEVATA_SOURCE_ERP_PASSWORD"])
def test_webhook_refuses_secrets_of_the_product(operator: Client, name: str):
    body = {"name": "x", "url": "https://hooks.example.org/", "events": ["load.failed"], "secret": name}
    must_be_refused(send(operator, "post", "webhooks/", body), "bad_secret")


def test_refused_webhook_delivery_stores_no_internal_address(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ELEVATA_WEBHOOK_SECRET_TEAM", "x")
    monkeypatch.setattr(deliveries, "post", _inside)
    DeliveryFactory()
    send_due()
    assert DeliveryAttempt.objects.get().answer == ""


def _inside(*_: Any, **__: Any) -> None:
    raise CannotCall("hooks.example.org is at 10.0.0.1, which is no public address", is_final=True)
