"""Log lines: one JSON object each, with the context of a request or run, and without secrets."""

import json
import logging
import sys

import pytest
from django.test import Client

from elevata.core.log_context import about, what_about
from elevata.ops.logging import PUT_OUT, JsonLines, OneLine, PlainLines, logging_settings, scrubbed


def record(message: str = "said", *args: object, **extra: object) -> logging.LogRecord:
    log_record = logging.LogRecord("elevata.test", logging.WARNING, "file.py", 1, message, args, None)
    vars(log_record).update(extra)
    return log_record


def line(log_record: logging.LogRecord) -> dict:
    return json.loads(JsonLines().format(log_record))


# --- fields of a line ------------------------------------------------------------------------------


def test_a_line_is_one_json_object() -> None:
    entry = line(record("loaded %s rows", 5))
    assert entry["message"] == "loaded 5 rows"
    assert (entry["level"], entry["logger"]) == ("warning", "elevata.test")
    assert entry["time"].endswith("Z")


def test_log_line_escapes_line_feeds() -> None:
    assert "\n" not in JsonLines().format(record("one\ntwo"))


def test_json_log_line_has_the_ids_of_its_context() -> None:
    with about(request_id="r1"), about(run_id="nightly-7", person_id=3):
        entry = line(record())
    assert (entry["request_id"], entry["run_id"], entry["person_id"]) == ("r1", "nightly-7", 3)
    assert what_about() == {}


def test_plain_log_line_has_the_ids_of_its_context() -> None:
    with about(run_id="nightly-7"):
        assert PlainLines().format(record("said")).endswith("WARNING elevata.test run_id=nightly-7 said")


def test_extra_values_are_fields_of_the_log_line() -> None:
    assert line(record(status=503))["status"] == 503


def test_log_line_omits_request_objects() -> None:
    assert "request" not in line(record(request="<WSGIRequest: GET '/?q=private'>"))


def test_an_exception_is_in_the_line() -> None:
    log_record = record()
    try:
        raise ValueError("no such thing")
    except ValueError:
        log_record.exc_info = sys.exc_info()
    assert "no such thing" in line(log_record)["exc_info"]


@pytest.mark.parametrize(("status", "is_shown"), [(403, False), (500, True)])
def test_only_an_unexpected_error_of_a_request_has_a_traceback(status: int, is_shown: bool) -> None:
    log_record = record(status_code=status, name="django.request")
    try:
        raise PermissionError("no such right")
    except PermissionError:
        log_record.exc_info = sys.exc_info()
    assert OneLine().filter(log_record)
    assert ("Traceback" in PlainLines().format(log_record)) == is_shown


# --- secrets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "ELEVATA_SOURCE_CRM",
        "ELEVATA_WEBHOOK_SECRET_TEAM",
        "ELEVATA_OIDC_CLIENT_SECRET",
        "ELEVATA_AUDIT_KEY",
        "POSTGRES_PASSWORD",
    ],
)
def test_secrets_of_the_environment_are_replaced(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "canary-4711")
    assert scrubbed("connecting with canary-4711 failed") == f"connecting with {PUT_OUT} failed"


def test_former_audit_keys_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELEVATA_AUDIT_KEYS_FORMER", "canary-4711, canary-4712")
    assert "canary" not in scrubbed("with canary-4712 and canary-4711")


def test_listed_source_secrets_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELEVATA_SOURCE_SECRETS", "OTHER, CRM_LOGIN")
    monkeypatch.setenv("CRM_LOGIN", "canary-4711")
    assert scrubbed("with canary-4711") == "with [secret]"


def test_secrets_read_from_files_are_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "secret").write_text("canary-4711\n")
    monkeypatch.setenv("ELEVATA_SOURCE_CRM_FILE", str(tmp_path / "secret"))
    assert "canary" not in scrubbed("with canary-4711")


def test_passwords_in_urls_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://:p%40ss-word@redis:6379/0")
    text = scrubbed("redis://:p%40ss-word@redis:6379/0 says: p@ss-word is wrong; amqp://me:other@host/")
    assert "ss-word" not in text
    assert ":other@" not in text
    assert "redis:6379" in text


@pytest.mark.parametrize("style", [JsonLines, PlainLines])
def test_secrets_with_special_characters_are_replaced(monkeypatch: pytest.MonkeyPatch, style: type) -> None:
    secret = 'qu"ote\\back\u00e4slash'
    monkeypatch.setenv("ELEVATA_SOURCE_CRM", secret)
    written = style().format(record("with %s and %r", secret, secret))
    assert "ote" not in written
    assert "slash" not in written


def test_secrets_in_a_traceback_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELEVATA_SOURCE_CRM", "canary-4711")
    log_record = record()
    try:
        raise ConnectionError("password canary-4711 refused")
    except ConnectionError:
        log_record.exc_info = sys.exc_info()
    assert "canary" not in JsonLines().format(log_record)


def test_personal_tokens_are_replaced() -> None:
    text = scrubbed("Authorization: Token abcdefgh12345 and elv_0123456789abcdef")
    assert "abcdefgh" not in text
    assert "0123456789" not in text


def test_secrets_set_after_the_first_line_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scrubbed("canary-4711") == "canary-4711"
    monkeypatch.setenv("ELEVATA_SOURCE_CRM", "canary-4711")
    assert scrubbed("canary-4711") == PUT_OUT


def test_settings_that_are_not_secret_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELEVATA_SOURCE_HOSTS", "db.example.org")
    assert scrubbed("db.example.org: 5 rows") == "db.example.org: 5 rows"


# --- requests --------------------------------------------------------------------------------------


def of_access(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [entry for entry in caplog.records if entry.name == "elevata.ops.access_log"]


def test_each_request_has_one_line_without_its_query(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "elevata.ops.access_log")
    client.get("/healthz?token=canary-4711", headers={"X-Request-ID": "from-the-proxy"})
    (entry,) = of_access(caplog)
    assert (entry.method, entry.path, entry.route, entry.status) == ("GET", "/healthz", "healthz", 200)
    assert "canary" not in entry.getMessage() + str(vars(entry))


def test_log_lines_of_a_request_have_its_request_id(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "elevata.ops.access_log")
    written: list[dict] = []

    class ListHandler(logging.Handler):
        def emit(self, log_record: logging.LogRecord) -> None:
            written.append(line(log_record))

    handler = ListHandler()
    logging.getLogger("elevata.ops.access_log").addHandler(handler)
    client.get("/healthz", headers={"X-Request-ID": "from-the-proxy"})
    logging.getLogger("elevata.ops.access_log").removeHandler(handler)
    assert [entry["request_id"] for entry in written] == ["from-the-proxy"]


@pytest.mark.django_db
def test_access_log_has_the_id_of_the_user(reader: Client, person, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "elevata.ops.access_log")
    reader.get("/datasets/")
    assert of_access(caplog)[-1].person_id == person.pk


@pytest.mark.parametrize(("style", "formatter"), [("json", "JsonLines"), ("plain", "PlainLines")])
def test_log_format_chooses_the_formatter(style: str, formatter: str) -> None:
    assert logging_settings(style, "INFO")["formatters"]["lines"]["()"].endswith(formatter)
