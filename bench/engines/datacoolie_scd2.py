"""datacoolie 0.2.0: its SCD2 load of a file into Delta, by its driver. AGPL: imported in this process only.

Its merge closes the current version of every delivered key and adds all delivered rows: it compares no values
and never detects deleted keys. A full snapshot therefore adds one version of every row at every load.
"""

import json
from pathlib import Path

from pyspark.sql import SparkSession

from bench.engines.engine import Engine
from bench.history.data import KEY


class DataCoolie(Engine):
    """Engine with a metadata file rewritten for each load: the snapshot's path and the load's time."""

    interval = ("__valid_from", "__valid_to")
    shortcoming = "opens a version for every delivered row, changed or not, and does not close deleted keys"

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder)
        # It refuses to write timestamps in a session with another setting.
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")

    @property
    def metadata(self) -> Path:
        return self.folder / "metadata.json"

    def prepare(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        source = Path(snapshot)
        places = (("snapshots", "file", "parquet", source.parent), ("warehouse", "lakehouse", "delta", self.tables))
        destination = {
            "connection_name": "warehouse",
            "table": "history",
            "load_type": "scd2",
            "merge_keys": [KEY],
            "configure": {"scd2_effective_column": "delivered_at"},
        }
        flow = {
            "name": "history",
            "stage": "history",
            "processing_mode": "batch",
            "source": {"connection_name": "snapshots", "table": source.name},
            "destination": destination,
            "transform": {"additional_columns": [{"column": "delivered_at", "expression": f"TIMESTAMP '{at}'"}]},
        }
        connections = [
            {"name": name, "connection_type": kind, "format": form, "configure": {"base_path": str(place)}}
            for name, kind, form, place in places
        ]
        self.metadata.write_text(json.dumps({"connections": connections, "dataflows": [flow]}))

    def load(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        from datacoolie.engines.spark_engine import SparkEngine
        from datacoolie.metadata.file_provider import FileProvider
        from datacoolie.orchestration.driver import DataCoolieDriver
        from datacoolie.platforms.local_platform import LocalPlatform

        platform = LocalPlatform()
        engine = SparkEngine(spark_session=self.spark, platform=platform)
        provider = FileProvider(config_path=str(self.metadata), platform=platform)
        with DataCoolieDriver(engine=engine, metadata_provider=provider) as driver:
            done = driver.run(stage="history")
        if done.succeeded != 1:
            raise RuntimeError(f"{done.succeeded} of {done.total} dataflows succeeded")
