"""Choice of the commit path, and commits by Delta's public interfaces beside another writer."""

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import functions as F

from loader.contract.refusals import Refusal
from loader.engine.session import dataset_session
from loader.engine.tables import commit_paths
from loader.engine.tables.commit_paths import choose_path, missing_call
from loader.engine.tables.commits import DIRECT, PUBLIC, commit
from loader.engine.tables.public_commits import PublicFiles
from loader.engine.tables.table_files import PLACE, TableMoved
from loader.engine.tables.tables import DeltaTable
from tests.fixtures.spark import by_night, use_path
from tests.loader.harness import Dataset

DAY = ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"]


# --- the choice ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "missing", "path", "reason"),
    [
        ("auto", "", DIRECT, "this version of Delta supports them"),
        ("auto", "there is no X", PUBLIC, "direct commits cannot be used: there is no X"),
        (DIRECT, "", DIRECT, "this version of Delta supports them"),
        (PUBLIC, "there is no X", PUBLIC, "ELEVATA_COMMITS is public"),
    ],
)
def test_commit_path_is_chosen_by_setting_and_self_test(monkeypatch, setting, missing, path, reason):
    monkeypatch.setattr(commit_paths, "missing_call", lambda spark: missing)
    chosen = choose_path(None, setting)
    assert chosen.as_json() == {"name": path, "reason": reason}


@pytest.mark.core
def test_direct_commits_that_cannot_be_used_are_refused_rather_than_replaced(monkeypatch):
    monkeypatch.setattr(commit_paths, "missing_call", lambda spark: "there is no X")
    with pytest.raises(Refusal, match="ELEVATA_COMMITS is direct, and this Delta cannot be used so: there is no X"):
        choose_path(None, DIRECT)


@pytest.mark.spark
def test_self_test_reports_a_missing_class_method_or_parameter(spark, monkeypatch):
    assert missing_call(spark) == ""
    real = commit_paths.class_of

    def without(name: str):
        def class_of(spark, wanted):
            if wanted.endswith(name):
                raise Py4JError(f"ClassNotFoundException: {wanted}")
            return real(spark, wanted)

        return class_of

    monkeypatch.setattr(commit_paths, "class_of", without("DeletionVectorBitmapGenerator$"))
    assert "DeletionVectorBitmapGenerator$.buildDeletionVectors(" in missing_call(spark)
    assert choose_path(spark, "auto").name == PUBLIC
    monkeypatch.setattr(commit_paths, "class_of", real)
    for expected in ("notThere", ()), ("startTransaction", ("int",)):
        monkeypatch.setattr(commit_paths, "_CALLS", [("org.apache.spark.sql.delta.DeltaLog", *expected)])
        assert missing_call(spark).startswith(f"there is no org.apache.spark.sql.delta.DeltaLog.{expected[0]}(")


# --- both paths, the same table ----------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.parametrize("historize", [True, by_night(False)])
def test_both_commit_paths_write_the_same_rows_and_commit_metadata(spark, tmp_path, monkeypatch, historize):
    """Change, delete and add rows of a table that is treated as a large one."""
    monkeypatch.setattr("loader.engine.historization.batches.REWRITE_UP_TO_ROWS", -1)
    states = {}
    for path in (DIRECT, PUBLIC):
        item = Dataset(spark, tmp_path / path, historize=historize)
        item.given(([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}], DAY[0]))
        use_path(monkeypatch, path)
        status, event = item.load([{"id": 1, "v": "A"}, {"id": 3, "v": "c"}, {"id": 4, "v": "d"}], at=DAY[1])
        assert (status, event["warnings"]) == ("succeeded", [])
        versions = item.history() if historize else []
        states[path] = versions, item.current(), [_commits(item.table(spec)) for spec in item.tables()]
    assert states[DIRECT] == states[PUBLIC]


def _commits(table: DeltaTable) -> list[tuple]:
    """Return run, number, counts, notes and transaction number of each commit of a run."""
    signed = table.run_commits()
    transactions = [
        [action["txn"]["version"] for action in table.commit(load.version) or () if "txn" in action] for load in signed
    ]
    runs = [(load.run_id, load.sequence, load.counts, load.notes, load.version) for load in signed]
    return list(zip(runs, transactions, strict=True))


# --- another writer ----------------------------------------------------------------------------------


@pytest.mark.spark
def test_public_commit_is_refused_if_another_writer_commits_before_the_write(spark, tmp_path, monkeypatch):
    """Commit after the first check of the version, so that only the subquery in the write detects the other commit."""
    session = dataset_session(spark, user_metadata='{"run": "ours"}')
    table = DeltaTable(session, str(tmp_path), "moved")
    frame = session.range(3).select(F.col("id").cast("string").alias("id"), F.lit("a").alias("part"))
    frame.write.format("delta").partitionBy("part").save(table.location)
    real = PublicFiles._write

    def after_another_writer(*arguments) -> None:
        spark.newSession().sql(f"INSERT INTO {table.sql_name} VALUES ('foreign', 'b')")
        real(*arguments)

    monkeypatch.setattr(PublicFiles, "_write", after_another_writer)
    add = session.createDataFrame([("new", "a")], frame.schema)

    def changes(files: PublicFiles) -> dict[str, dict]:
        return {
            "append": {"add": add},
            "overwrite": {"add": add, "remove": files.all},
            "replaceWhere": {"add": add, "remove": files.where("part", "a")},
            "merge": {"gone": files.frame(placed=True).select(PLACE), "gone_from": files.all, "add": add},
            "nothing": {},
        }

    for number, kind in enumerate(changes(PublicFiles(session, table, ("id",))), start=1):
        files = PublicFiles(session, table, ("id",))
        with pytest.raises(TableMoved):
            commit(files, "run", number, **changes(files)[kind])
        assert table.version() == number, kind
    assert table.committed_sequence("run") == -1
    assert {row.id for row in table.frame().collect()} == {"0", "1", "2", "foreign"}
