"""Read every table of a JSON file in plain Spark with Delta; print the same output as ``read_tables``."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from rows_as_text import rows_as_text

jars = ",".join(str(path) for path in sorted(Path(sys.argv[2]).glob("*.jar")))
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", jars)
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.warehouse.dir", sys.argv[3])
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")  # as in tests/fixtures/spark.py
    .getOrCreate()
)
tables = json.loads(Path(sys.argv[1]).read_text())
rows_by_name = {name: spark.read.format("delta").load(place).collect() for name, place in tables.items()}
print(json.dumps({"Spark": {name: rows_as_text(row.asDict() for row in rows) for name, rows in rows_by_name.items()}}))
