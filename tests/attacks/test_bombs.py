"""Attacks with small requests that expand to large data: YAML, JSON, compressed files."""

import gzip
import io
import zipfile

import pytest
from django.test import Client

from metadata.models import System
from tests.attacks.requests import must_be_refused, send

pytestmark = pytest.mark.django_db

LAUGHS = "a: &a [lol, lol]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)


def bring(client: Client, content: str, name: str = "a.yaml"):
    return send(client, "post", "metadata/import/", {"files": [{"name": name, "content": content}]})


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (LAUGHS, "alias"),
        ("a: &a [*a]\n", "alias"),
        ("[" * 10_000 + "]" * 10_000, "too_big"),
        ("- " * 5_000 + "a", "too_big"),
        ("{a: " * 2_000 + "1" + "}" * 2_000, "too_big"),
        ("!!python/object/apply:os.system ['id']\n", "bad_yaml"),
        ("!!python/object/new:subprocess.Popen [['id']]\n", "bad_yaml"),
        ("!!python/object:os.x {format: metadata/v1}\n", "bad_yaml"),
        ("!!python/name:os.system : metadata/v1\n", "bad_yaml"),
        ("format: !!python/name:os.system\n", "bad_yaml"),
        ("!<tag:yaml.org,2002:python/module:os> ''\n", "bad_yaml"),
        ("<<: {format: metadata/v1}\n", "unknown_field"),
        ("--- a\n--- b\n", "bad_yaml"),
        ("? [a, b]\n: c\n", "bad_yaml"),
        ("a: 1\na: 2\n", "duplicate_field"),
        ("%YAML 9.9\n---\na: 1\n", "bad_yaml"),
        ("\x01", "bad_yaml"),
        ("", "invalid"),
    ],
)
def test_a_hostile_yaml_file_is_refused_by_rest(operator: Client, content: str, code: str):
    must_be_refused(bring(operator, content), code)
    assert not System.objects.exists()


def test_metadata_import_refuses_a_zip_file(operator: Client):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../etc/cron.d/x", "0" * 1_000_000)
    answer = operator.post("/api/v1/metadata/import/", packed.getvalue(), content_type="application/zip")
    must_be_refused(answer, "parse_error")


def test_compressed_request_body_is_refused(operator: Client):
    bomb = gzip.compress(b"[" + b"0," * 5_000_000 + b"0]")
    answer = operator.post(
        "/api/v1/systems/", bomb, content_type="application/json", headers={"Content-Encoding": "gzip"}
    )
    must_be_refused(answer, "parse_error")


def test_request_body_over_the_size_limit_is_refused(operator: Client):
    must_be_refused(bring(operator, "a: " + "x" * (9 * 1024 * 1024)), "body_too_big")


def test_deeply_nested_request_body_is_refused(operator: Client):
    body = "[" * 200_000
    must_be_refused(operator.post("/api/v1/systems/", body, content_type="application/json"), "parse_error")


def test_file_name_in_an_import_writes_no_file(operator: Client, tmp_path):
    for name in ("../../../../tmp/canary.yaml", str(tmp_path / "canary.yaml")):
        assert bring(operator, "format: metadata/v1\n", name=name).status_code == 200
    assert not (tmp_path / "canary.yaml").exists()


@pytest.mark.parametrize("page", ["999999999999999999999", "-1", "0", "1e9", "x"])
def test_invalid_page_number_causes_no_server_error(operator: Client, page: str):
    assert operator.get("/api/v1/systems/", {"page": page}).status_code in (200, 400, 404)


def test_huge_page_size_causes_no_server_error(operator: Client):
    answer = operator.get("/api/v1/systems/", {"page_size": "1000000"})
    assert answer.status_code in (200, 400)


def test_long_or_deeply_nested_expression_is_refused_before_parsing(operator: Client, airport):
    """Check that long or nested expressions are refused by their size or depth, before parsing."""
    column = airport.columns.get(name="name")
    long, deep = "Ensure this field has no more than 10000 characters.", "is nested too deeply"
    for expression, reason in (
        ("a" * 20_000, long),
        ("name || " * 5_000 + "name", long),
        ("- " * 4_500 + "1", deep),
        ("(" * 4_500 + "1" + ")" * 4_500, deep),
    ):
        answer = send(operator, "patch", f"columns/{column.key}/", {"expression": expression})
        must_be_refused(answer)
        assert answer.json()["errors"] == {"expression": [reason]}
