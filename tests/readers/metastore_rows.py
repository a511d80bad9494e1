"""Print the rows of queries as JSON, run in a plain Spark session with Delta on a Hive metastore.

Arguments: folder of Delta's jars, metastore's address, version and jars of its client, Spark's warehouse, queries.
"""

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
    .config("spark.sql.catalogImplementation", "hive")
    .config("spark.hadoop.hive.metastore.uris", sys.argv[2])
    .config("spark.sql.hive.metastore.version", sys.argv[3])
    .config("spark.sql.hive.metastore.jars", "path")
    .config("spark.sql.hive.metastore.jars.path", sys.argv[4])
    .config("spark.sql.warehouse.dir", sys.argv[5])
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
print(json.dumps([[list(row) for row in spark.sql(query).collect()] for query in sys.argv[6:]], default=str))
