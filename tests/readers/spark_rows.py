"""Run the statements of a file in plain Spark with Delta, then print the rows of each further query as JSON."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

jars = ",".join(str(path) for path in sorted(Path(sys.argv[1]).glob("*.jar")))
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
for statement in Path(sys.argv[2]).read_text().split(";\n"):
    if statement.strip():
        spark.sql(statement)
print(json.dumps([[list(row) for row in spark.sql(query).collect()] for query in sys.argv[4:]], default=str))
