"""Example jobs of other teams that write the reporting tables with Spark and Delta, without elevata.

    python fill.py AIRPORTS ROUTES SITE TIMETABLE BOARD

Each argument is the folder of a Delta table. The rows of SITE have a column ``remark`` that is not in the
metadata, so the next refresh reports drift of that table. PYSPARK_SUBMIT_ARGS must name Delta's jars.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def site_rows(airports: DataFrame) -> DataFrame:
    """Return the airports with an IATA code, with the additional column ``remark``."""
    return airports.where("iata IS NOT NULL").select(
        "iata",
        "name",
        "city",
        "country",
        (f.col("elevation") * 0.3048).alias("elevation_m"),
        f.when(f.col("elevation") > 8000, "thin air: longer take-off").alias("remark"),
    )


def timetable_rows(routes: DataFrame) -> DataFrame:
    return routes.select("route_no", "airline", "origin_icao", "destination_icao", "distance_nm", "opened_on")


def board_rows(airports: DataFrame) -> DataFrame:
    return airports.where("iata IS NOT NULL").select("icao", "city")


def main(airports: str, routes: str, site: str, timetable: str, board: str) -> None:
    builder = SparkSession.builder.master("local[2]").appName("jobs of other teams")
    for name, value in _DELTA.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    known, planned = (spark.read.format("delta").load(place) for place in (airports, routes))
    for rows, place in ((site_rows(known), site), (timetable_rows(planned), timetable), (board_rows(known), board)):
        rows.write.format("delta").mode("append").option("mergeSchema", "true").save(place)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:6])
