"""Engine of dbt: the same SELECTs as models of a project, over the tables of the product's engine."""

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from bench.engines.dbt_project import DbtProject
from bench.flights.digests import digest_of_model
from bench.processes.meter import metered

# As many as the product loads side by side.
THREADS = 4


class DbtFlights:
    """Project with a model for each SELECT; ``inputs`` are the folders of the tables that they read, by name."""

    def __init__(
        self, spark: SparkSession, folder: Path, models: dict[str, str], views: list[str], inputs: dict[str, str]
    ) -> None:
        self.spark, self.models, self.views = spark, list(models), views
        self.tables = folder / "tables"
        files = {
            f"models/{name}.sql": text.replace("<location_root>", str(self.tables)) for name, text in models.items()
        }
        self.project = DbtProject(folder / "project", files, threads=THREADS)
        for schema in ("bench", "source"):
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for name, location in inputs.items():
            spark.sql(f"CREATE OR REPLACE VIEW source.{name} AS SELECT * FROM delta.`{location}`")

    def start(self) -> None:
        """Remove what was built before."""
        for name in self.models:
            self.spark.sql(f"DROP {'VIEW' if name in self.views else 'TABLE'} IF EXISTS bench.{name}")
        shutil.rmtree(self.tables, ignore_errors=True)
        self.arrive()

    def arrive(self) -> None:
        """Clear the caches of tables that the product's engine has replaced."""
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self.spark.catalog.clearCache()

    def build(self) -> dict:
        with metered(self.spark) as measured:
            self.project.invoke("run")
        return {"seconds": measured.seconds, "cpu_seconds": measured.cpu_seconds}

    def digests(self) -> dict[str, dict[str, str]]:
        return {name: digest_of_model(self.spark.table(f"bench.{name}")) for name in self.models}
