"""dbt snapshots on Spark.

Strategy ``check`` on the row hash, deleted keys invalidated, Delta as file format. dbt dates versions by its
own clock; a macro of the project uses the load's time instead, so that histories can be compared. The time is
passed in a DBT_ENV_CUSTOM_ENV_ variable, the only way that does not cause another parse.
"""

import os
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.engines.dbt_project import DbtProject
from bench.engines.engine import Engine
from bench.history.data import KEY, ROW_HASH

CLOCK = """
{% macro snapshot_get_time() %}timestamp '{{ dbt_metadata_envs["LOAD_TIME"] }}'{% endmacro %}
"""
SNAPSHOT = """
{{% snapshot {name} %}}
{{{{ config(
    target_schema='bench', unique_key='{key}', strategy='check', check_cols=['{row_hash}'],
    hard_deletes='invalidate', file_format='delta', location_root='{root}'
) }}}}
select * from source.{name}
{{% endsnapshot %}}
"""


class DbtSnapshot(Engine):
    """dbt project in the engine's folder; each snapshot reads a view of the same name."""

    interval = ("dbt_valid_from", "dbt_valid_to")
    threads = 1

    def __init__(self, spark: SparkSession, folder: Path, names: list[str] | None = None) -> None:
        super().__init__(spark, folder)
        self.names = names or ["item"]
        files = {
            f"snapshots/{name}.sql": SNAPSHOT.format(name=name, key=KEY, row_hash=ROW_HASH, root=self.tables)
            for name in self.names
        }
        self.project = DbtProject(folder / "project", files | {"macros/clock.sql": CLOCK}, threads=self.threads)
        for schema in ("bench", "source"):
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")

    def prepare(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        for name in self.names:
            path = snapshot.replace("{}", name)
            self.spark.sql(f"CREATE OR REPLACE VIEW source.{name} AS SELECT * FROM parquet.`{path}`")

    def load(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        from dbt_common.events.functions import reset_metadata_vars

        os.environ["DBT_ENV_CUSTOM_ENV_LOAD_TIME"] = at
        reset_metadata_vars()
        self.project.invoke("snapshot")

    def history(self) -> DataFrame:
        return reduce(DataFrame.unionByName, map(self.versions, self.names))


class DbtSmallTables(DbtSnapshot):
    """Many small snapshots in one ``dbt snapshot``, four at a time."""

    threads = 4
