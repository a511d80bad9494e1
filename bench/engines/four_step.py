"""Classic historization with four statements on Delta: two MERGEs, two INSERTs.

They update changed rows, update deleted rows, insert changed rows, insert new rows: four commits, each with
its own comparison. The table has no partitions, as in the original statements.
"""

from bench.engines.engine import Engine
from bench.history.data import DELIVERED, KEY, ROW_HASH

TABLE_COLUMNS = f"{KEY}, {', '.join(DELIVERED)}, {ROW_HASH}"

CHANGED_UPDATE = """
MERGE INTO {history} AS h USING snapshot AS r
ON h.entity_key = r.entity_key AND h.version_ended_at IS NULL
WHEN MATCHED AND r.row_hash <> h.row_hash THEN UPDATE SET
  version_ended_at = {at}, version_state = 'changed', load_run_id = {run}
"""
DELETE_UPDATE = """
MERGE INTO {history} AS h USING snapshot AS r
ON h.entity_key = r.entity_key
WHEN NOT MATCHED BY SOURCE AND h.version_ended_at IS NULL THEN UPDATE SET
  version_ended_at = {at}, version_state = 'deleted', load_run_id = {run}
"""
CHANGED_INSERT = """
INSERT INTO {history}
SELECT {columns}, {at}, CAST(NULL AS timestamp), 'changed', {run}
FROM snapshot AS r
WHERE EXISTS (
  SELECT 1 FROM {history} AS h
  WHERE h.version_ended_at = {at} AND h.version_state = 'changed' AND h.entity_key = r.entity_key
)
"""
NEW_INSERT = """
INSERT INTO {history}
SELECT {columns}, {at}, CAST(NULL AS timestamp), 'new', {run}
FROM snapshot AS r
WHERE NOT EXISTS (SELECT 1 FROM {history} AS h WHERE h.entity_key = r.entity_key)
"""


class FourStep(Engine):
    """Engine that runs the statements over a view of the snapshot; rawcore would be a table."""

    interval = ("version_started_at", "version_ended_at")

    def prepare(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        self.spark.read.parquet(snapshot).createOrReplaceTempView("snapshot")
        if before is None:
            empty = (
                self.spark.table("snapshot")
                .limit(0)
                .selectExpr(
                    *TABLE_COLUMNS.split(", "),
                    "CAST(NULL AS timestamp) AS version_started_at",
                    "CAST(NULL AS timestamp) AS version_ended_at",
                    "CAST(NULL AS string) AS version_state",
                    "CAST(NULL AS string) AS load_run_id",
                )
            )
            empty.write.format("delta").save(str(self.tables / "history"))

    def load(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        for statement in (CHANGED_UPDATE, DELETE_UPDATE, CHANGED_INSERT, NEW_INSERT):
            self.spark.sql(
                statement.format(
                    history=f"delta.`{self.tables / 'history'}`",
                    columns=TABLE_COLUMNS,
                    at=f"TIMESTAMP '{at}'",
                    run=f"'run-{load}'",
                )
            )
