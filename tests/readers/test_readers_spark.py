"""Tests that read a loaded warehouse by DuckDB, by plain Spark, and by ``manage.py sql``."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from elevata.bootstrap.places import SPARK_JARS
from tests.loader.installation import SHOP, Installation, make_installation, working
from tests.readers.environment import readers_python

pytestmark = pytest.mark.spark

ITEM = "rawcore.rc_shop_item"
PRIVATE = SHOP.replace("{name: colour, type: string}", "{name: colour, type: string, pii: true}")
QUERIES = (
    f"SELECT id, name, price, colour FROM {ITEM} ORDER BY id",
    f"SELECT count(*) FROM {ITEM}_hist",
    f"SELECT id, name FROM {ITEM}_hist_current ORDER BY id",
    "SELECT id, price FROM stage.stg_shop_item ORDER BY id",
)
ROWS = [
    [[1, "Anvil", 100, "black"], [2, "Bell", 7, None], [3, None, 12, "red"]],
    [[3]],
    [[1, "Anvil"], [2, "Bell"], [3, None]],
    [[1, 100], [2, 7], [3, 12]],
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Iterator[Installation]:
    """Yield an installation with one loaded dataset, a view over its history, a viewer and a steward, and a worker."""
    folder = tmp_path_factory.mktemp("readers") / "data"
    folder.mkdir()
    made = make_installation(folder, PRIVATE)
    made.edit_columns(ITEM, "edda", facts={"history_policy": {"views": ["current"]}})
    for name in ("viewer", "steward"):
        made.tokens[name] = made.json("create_user", name, "--role", name, "--token")["token"]
    with working(made):
        done = made.run("load")
        assert done.returncode == 0, done.stderr
        yield made


def catalog(shop: Installation, engine: str) -> Path:
    done = shop.run("catalog", "--format", engine)
    assert done.returncode == 0, done.stderr
    file = shop.folder / f"catalog.{engine}.sql"
    file.write_text(done.stdout)
    return file


def rows_of(*command: object) -> list:
    done = subprocess.run(
        [str(part) for part in command], cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def sql(shop: Installation, query: str, *options: str, by: str = "steward", code: int = 0) -> str:
    done = shop.run("sql", query, *options, by=by)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def test_the_catalog_lists_every_name_of_the_warehouse(shop: Installation):
    entries = {entry["name"]: entry for entry in json.loads(shop.run("catalog").stdout)}
    kinds = {name: entry["kind"] for name, entry in entries.items()}
    assert kinds == {
        "raw.raw_shop_item": "table",
        ITEM: "table",
        f"{ITEM}_hist": "table",
        f"{ITEM}_hist_current": "view",
        "stage.stg_shop_item": "view",
    }
    assert all(Path(entry["location"], "_delta_log").is_dir() for entry in entries.values() if entry["kind"] == "table")


def test_duckdb_reads_every_name(shop: Installation):
    file = catalog(shop, "duckdb")
    assert rows_of(readers_python(), "tests/readers/duckdb_rows.py", file, *QUERIES) == ROWS


@pytest.mark.nightly
def test_plain_spark_reads_every_name(shop: Installation, tmp_path: Path):
    file = catalog(shop, "spark")
    command = (sys.executable, "tests/readers/spark_rows.py", SPARK_JARS, file, tmp_path / "warehouse")
    assert rows_of(*command, *QUERIES) == ROWS


def test_sql_reads_every_name(shop: Installation):
    for query, expected in zip(QUERIES, ROWS, strict=True):
        assert [list(row.values()) for row in json.loads(sql(shop, query, "--format", "json"))] == expected


def test_sql_command_prints_values_of_every_type_as_json(shop: Installation):
    query = (
        "SELECT 1.10BD AS d, TIMESTAMP '2026-01-02 03:04:05.5' AS t, DATE '2026-01-02' AS day, CAST(NULL AS INT) AS n, "
        "true AS b, 2.5D AS f, double('NaN') AS nan, array(1.0BD, NULL) AS a, struct(TIMESTAMP '2026-01-01') AS s, "
        "unhex('0AFF') AS x, TIMESTAMP '9999-12-31T23:59:59.999Z' AS high"
    )
    assert json.loads(sql(shop, query, "--format", "json")) == [
        {
            "d": "1.10",
            "t": "2026-01-02T03:04:05.5Z",
            "day": "2026-01-02",
            "n": None,
            "b": True,
            "f": 2.5,
            "nan": "NaN",
            "a": ["1.0", None],
            "s": {"col1": "2026-01-01T00:00:00Z"},
            "x": "0AFF",
            "high": "9999-12-31T23:59:59.999Z",
        }
    ]


def test_sql_command_masks_personal_values_for_a_viewer_in_every_query(shop: Installation):
    queries = (
        f"SELECT colour FROM {ITEM}",
        f"SELECT * FROM {ITEM}",
        f"SELECT upper(c) || '!' AS x FROM (SELECT colour AS c FROM {ITEM})",
        f"WITH a(x, y, z, v) AS (SELECT id, name, price, colour FROM {ITEM}) SELECT v FROM a",
        f"SELECT max(h.colour) FROM {ITEM} i JOIN {ITEM}_hist h ON h.id = i.id",
        f"SELECT id FROM {ITEM} WHERE colour = 'black'",
        f"SELECT id FROM {ITEM} i JOIN (VALUES ('red')) AS v(w) ON i.colour = v.w",
        "SELECT colour FROM stage.stg_shop_item",
        "SELECT colour FROM raw.raw_shop_item",
        f"SELECT colour FROM {ITEM}_hist_current",
        f"SELECT to_json(struct(*)) FROM {ITEM}",
        f"SELECT count(*) FROM {ITEM} WHERE colour LIKE 'r%'",
        f"SELECT x.b FROM {ITEM} AS x(k, a, p, q, b, r, s, t)",
        f"SELECT (SELECT first(colour) FROM {ITEM}) AS c, 1 AS one",
    )
    for query in queries:
        done = shop.run("sql", query, "--format", "csv", by="viewer")
        assert "black" not in done.stdout + done.stderr, query
        assert "red" not in done.stdout.replace("masked", "") + done.stderr.replace("shared", ""), query
    assert sql(shop, f"SELECT id, colour FROM {ITEM} ORDER BY id LIMIT 1", "--format", "csv", by="viewer") == (
        '"id","colour"\n"1","•••"\n'
    )
    assert json.loads(sql(shop, queries[5], "--format", "json", by="viewer")) == []


def test_sql_command_logs_personal_values_read_by_a_steward(shop: Installation):
    assert "black" in sql(shop, f"SELECT lower(colour) FROM {ITEM}")
    sql(shop, f"SELECT id FROM {ITEM}")
    entries = json.loads(
        shop.shell(
            "import json\nfrom elevata.audit.models import ChangeLogEntry\n"
            "rows = ChangeLogEntry.objects.filter(action='read', actor='steward').order_by('pk')\n"
            "print(json.dumps([[row.subject_name, row.changes] for row in rows]))"
        )
    )
    name, changes = entries[-1]
    assert name == ITEM
    assert '"sql"' in changes
    assert '"colour"' in changes


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT nothing FROM rawcore.rc_shop_item", "line 1, column 8: "),
        ("SELECT id,\n  nothing\nFROM rawcore.rc_shop_item", "line 2, column 3: "),
        ("SELECT id FROM rawcore.rc_shop_item WHERE rc_shop_item.nothing = 1", "line 1, column 43: "),
        ("SELECT * FROM delta.`/etc`", "line 1, column 15: delta./etc is no published"),
        ("SELECT id FROM rawcore.rc_shop_item; SELECT 1", "a second statement"),
        ("SELECT id FROM rawcore.rc_shop_itm", "did you mean rawcore.rc_shop_item?"),
        ("SELECT reflect('java.lang.System', 'nanoTime')", "the function reflect is not allowed"),
        ("SELECT _metadata.file_path FROM rawcore.rc_shop_item", "line 1, column 8: "),
        ("SELECT upper(name, id) FROM rawcore.rc_shop_item", "line 1, column "),
        ("SELECT session_user", "is not allowed: it names the server's account"),
        ("SELECT id FROM (SELECT id, concat(user, '') AS u FROM rawcore.rc_shop_item)", "is not allowed: it names"),
    ],
)
def test_invalid_query_ends_with_4_and_names_its_place(shop: Installation, query: str, expected: str):
    error = sql(shop, query, code=4)
    assert expected in error
    assert error.count("\n") == 1


def test_a_query_that_fails_ends_with_1(shop: Installation):
    assert "zero" in sql(shop, f"SELECT id / 0 FROM {ITEM}", code=1)


def test_limited_query_reports_further_rows(shop: Installation):
    done = shop.run("sql", f"SELECT id FROM {ITEM} ORDER BY id DESC", "--limit", "2")
    assert done.stdout.splitlines() == ["id", "--", "3", "2"]
    assert "more rows than these 2" in done.stderr
