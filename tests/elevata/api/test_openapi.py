"""OpenAPI description: complete, stored in docs/openapi.yaml, with a page of local files."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.db import connection
from django.test import Client

STORED = Path(settings.BASE_DIR) / "docs" / "openapi.yaml"


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> str:
    """Return the generated description, which must have no warnings."""
    file = tmp_path_factory.mktemp("openapi") / "openapi.yaml"
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(file))
    return file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def paths(generated: str) -> dict[str, dict[str, Any]]:
    """Return the described operations by path and method."""
    # The loader in C: the document has some 25,000 lines.
    return yaml.load(generated, Loader=yaml.CSafeLoader)["paths"]


def test_stored_openapi_document_is_up_to_date(generated: str):
    assert STORED.read_text(encoding="utf-8") == generated, "make openapi writes it anew"


def test_the_description_is_the_same_on_the_other_database(tmp_path: Path):
    empty = f"sqlite:///{tmp_path}/empty.sqlite3"
    other = empty if connection.vendor == "postgresql" else "postgres://nobody@127.0.0.1:1/none"
    file = tmp_path / "openapi.yaml"
    command = [sys.executable, "manage.py", "spectacular", "--file", str(file)]
    subprocess.run(command, cwd=settings.BASE_DIR, env=os.environ | {"DATABASE_URL": other}, check=True, timeout=120)
    assert file.read_text(encoding="utf-8") == STORED.read_text(encoding="utf-8")


def test_operations_have_a_description_and_an_error_response(paths: dict[str, dict[str, Any]]):
    for path, operations in paths.items():
        for method, operation in operations.items():
            assert operation.get("description"), (method, path)
            assert "4XX" in operation["responses"], (method, path)


def test_if_match_header_is_described_as_required(paths: dict[str, dict[str, Any]]):
    for path in ("/api/v1/reports/{report_id}/approve/", "/api/v1/columns/{key}/rename/"):
        (header,) = [parameter for parameter in paths[path]["post"]["parameters"] if parameter["name"] == "If-Match"]
        assert header["required"], path


@pytest.fixture
def plain_names(settings) -> None:
    """Serve static files by their plain names."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


@pytest.mark.django_db
def test_api_docs_page_loads_only_local_files(reader: Client, plain_names: None):
    page = reader.get("/api/v1/docs/")
    text = page.content.decode()
    assert 'data-schema="/api/v1/schema/"' in text
    for line in text.splitlines():
        if "<script" in line or "stylesheet" in line:
            address = line.split('src="' if "<script" in line else 'href="')[1].split('"')[0]
            assert finders.find(address.removeprefix("/static/")), address


@pytest.mark.django_db
def test_api_docs_page_redirects_anonymous_users_to_sign_in(client: Client):
    assert client.get("/api/v1/docs/").url.startswith("/sign-in/")
