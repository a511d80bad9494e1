"""Attack on secrets: planted in every place that can store a secret, and searched for in all output."""

import io
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from elevata.accounts.actors import acting_as
from elevata.accounts.services.tokens import create_token
from elevata.core.errors import MetadataError
from elevata.notifications.services import create_webhook
from elevata.ops.checks import secrets_of_systems_are_listed
from loader.contract.refusals import Refusal
from loader.services.sources.specs import database_place
from loader.sources.page_limits import password_of
from metadata.models import System
from metadata.services.sources import update_system
from tests.attacks.requests import send
from tests.elevata.notifications.deliveries import send_due
from tests.elevata.web.forms import typed
from tests.elevata.web.html import text_of
from tests.factories import DeliveryFactory, EventFactory, SystemFactory

pytestmark = pytest.mark.django_db

CANARIES = {
    "ELEVATA_SOURCE_ERP_PASSWORD": "canary-source-8h2k",
    "ELEVATA_WEBHOOK_SECRET_TEAM": "canary-webhook-9x4p",
}
MAIL, KEY, TYPED = "canary-mail-3v7m", "canary-key-5t1q" * 4, "canary-typed-6w0z"
ALL = (*CANARIES.values(), MAIL, KEY, TYPED)


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    settings.SECRET_KEY = KEY
    settings.SOURCE_HOSTS = ["127.0.0.1"]
    settings.EMAIL_ENABLED = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "mailer", MAIL


@pytest.fixture
def erp(db: None) -> System:
    """Return a database system that refuses connections, with its password given by reference."""
    location = "postgresql://reader@127.0.0.1:1/erp"
    return SystemFactory(short_name="erp", kind="jdbc", location=location, secret="ELEVATA_SOURCE_ERP_PASSWORD")


def check_no_secret(text: str, *, of: str, canaries: tuple[str, ...] = ALL) -> None:
    assert [canary for canary in canaries if canary in text] == [], of


def stored_text() -> str:
    """Return the text of all rows of all tables."""
    return "".join(str(list(model._base_manager.values())) for model in apps.get_models() if model._meta.managed)


def texts_of(client: Client, paths: list[str]) -> str:
    """Return the text of pages and responses, all of which must exist."""
    texts = []
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.status_code)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        texts.append(body.decode() + str(dict(answer.headers)))
    return "".join(texts)


PAGES = [
    "/",
    "/sources/",
    "/systems/erp/",
    "/systems/erp/edit/",
    "/systems/erp/discover/?show=now",
    "/changes/",
    "/notices/",
    "/webhooks/",
    "/deliveries/",
    "/api/v1/systems/",
    "/api/v1/systems/erp/",
    "/api/v1/webhooks/",
    "/api/v1/deliveries/",
    "/api/v1/notices/",
    "/api/v1/metadata/export/",
    "/api/v1/schema/",
    "/healthz",
]


def test_failed_connection_reveals_no_password(operator: Client, erp: System, caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG")
    text = operator.post("/systems/erp/test/").content.decode()
    assert "refuses connections" in text
    check_no_secret(text + caplog.text, of="the answer and the log")


def test_pages_and_api_responses_reveal_no_secret(operator: Client, erp: System, caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG")
    create_webhook(
        name="team",
        url="https://127.0.0.1/hook",
        events=["load.failed"],
        secret="ELEVATA_WEBHOOK_SECRET_TEAM",
    )
    operator.post("/systems/erp/test/")
    check_no_secret(texts_of(operator, PAGES) + caplog.text, of="pages, answers and the log")


def test_failed_webhook_delivery_and_mail_store_no_secret(caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG")
    DeliveryFactory(webhook__url="https://127.0.0.1/")
    ada = User.objects.create_user("ada", email="ada@example.org")
    DeliveryFactory(webhook=None, user=ada, event=EventFactory())
    assert send_due() == 2
    check_no_secret(stored_text() + caplog.text, of="rows and the log")


def test_password_in_a_location_is_neither_stored_nor_shown(
    operator: Client, erp: System, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG")
    location = f"postgresql://reader:{TYPED}@127.0.0.1/erp"
    body = {"short_name": "shop", "name": "Shop", "kind": "jdbc", "location": location}
    text = send(operator, "post", "systems/", body).content.decode()
    text += send(operator, "patch", "systems/erp/", {"location": location}).content.decode()
    page = text_of(operator, "/add-source/jdbc/")
    for address in ("/add-source/jdbc/", "/add-source/jdbc/test/"):
        text += operator.post(address, typed(page, having="short_name", **body)).content.decode()
    file = f"format: metadata/v1\nsystem: {{short_name: shop, name: Shop, kind: jdbc, location: '{location}'}}\n"
    text += send(operator, "post", "metadata/import/", {"files": [{"name": "a", "content": file}]}).content.decode()
    check_no_secret(text + stored_text() + caplog.text, of="refusals, rows and the log")


def test_password_in_place_of_a_secret_name_is_neither_stored_nor_shown(operator: Client, erp: System):
    text = send(operator, "patch", "systems/erp/", {"secret": TYPED}).content.decode()
    body = {"name": "x", "url": "https://hooks.example.org/", "events": ["load.failed"], "secret": TYPED}
    text += send(operator, "post", "webhooks/", body).content.decode()
    check_no_secret(text + stored_text(), of="refusals and rows")


def test_commands_write_no_secret(erp: System, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    output = io.StringIO()
    for command, arguments in (
        ("export_metadata", [str(tmp_path / "metadata")]),
        ("verify_audit", []),
        ("check", []),
    ):
        try:
            call_command(command, *arguments, stdout=output, stderr=output)
        except (CommandError, SystemExit) as ended:
            output.write(str(ended))
    exported = "".join(path.read_text() for path in tmp_path.rglob("*.yaml"))
    assert "erp" in exported
    captured = capsys.readouterr()
    check_no_secret(output.getvalue() + exported + captured.out + captured.err, of="what commands say and write")


def test_token_is_neither_stored_as_text_nor_shown_again(starter: User, operator: Client):
    with acting_as(starter):
        _, text = create_token(user=starter, name="laptop")
    check_no_secret(stored_text(), of="rows", canaries=(text,))
    check_no_secret(texts_of(operator, ["/changes/", "/me/"]), of="pages", canaries=(text,))


def test_unexpected_error_reveals_no_internal_message(operator: Client, erp: System, monkeypatch: pytest.MonkeyPatch):
    def breaks(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"broken with {TYPED}")

    operator.raise_request_exception = False
    monkeypatch.setattr("elevata.notifications.views.notices_of", breaks)
    monkeypatch.setattr("elevata.notifications.api.notices_of", breaks)
    for path in ("/notices/", "/api/v1/notices/"):
        answer = operator.get(path)
        assert answer.status_code == 500
        check_no_secret(answer.content.decode(), of=path)


def test_system_with_an_unlisted_secret_variable_is_refused(monkeypatch: pytest.MonkeyPatch, settings):
    """Check that reads of a stored system are refused if its secret variable is not listed any more."""
    monkeypatch.setenv("VAULT_TOKEN", "canary-vault-7x")
    system = SystemFactory(
        short_name="vault", kind="jdbc", location="postgresql://reader@db.example.org/x", secret="VAULT_TOKEN"
    )
    for read in (database_place, password_of):
        with pytest.raises(Refusal, match="its secret must be .* ELEVATA_SOURCE_SECRETS") as refused:
            read(system)
        assert refused.value.code == "BAD_LOCATION"
    with pytest.raises(MetadataError, match="ELEVATA_SOURCE_SECRETS"):
        update_system(system=system, expected_version=system.version, description="changed")
    (warning,) = secrets_of_systems_are_listed(databases=["default"])
    assert (warning.id, "vault (VAULT_TOKEN)" in warning.msg) == ("elevata.W008", True)
    settings.SOURCE_SECRETS = ["VAULT_TOKEN"]
    assert secrets_of_systems_are_listed(databases=["default"]) == []
    assert (database_place(system).host, password_of(system)) == ("db.example.org", "canary-vault-7x")
