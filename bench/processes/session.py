"""Spark session of every engine, with the product's settings for all, so that none has an advantage.

Processes of other libraries get the settings as plain values and run no code of the product.
"""

from pathlib import Path

from bench.problem import BenchProblem

MASTER = "local[2]"
DRIVER_MEMORY = "4g"
# MERGE then marks replaced rows instead of rewriting whole files. The product's tables have it by themselves; the
# peers get it too, though Delta's own default is off.
DELETION_VECTORS = "spark.databricks.delta.properties.defaults.enableDeletionVectors"


def product_settings(warehouse: Path, jars: Path) -> dict[str, str]:
    """Return the settings of the product's runner, for two cores and the benchmark's driver memory.

    Databases and brokers of this machine may be read.
    """
    from loader.engine.session import RunnerConfig, settings_of

    if not list(jars.glob("*.jar")):
        raise BenchProblem(f"Delta's jars are not in {jars}: run make setup")
    config = RunnerConfig(
        warehouse=str(warehouse),
        master=MASTER,
        jars=str(jars),
        driver_memory=DRIVER_MEMORY,
        environment="bench",
        source_roots=("/",),
        source_hosts=("127.0.0.1",),
    )
    # The runner sizes shuffles by the machine's cores; here every engine has the master's two.
    cores = MASTER.removeprefix("local[").removesuffix("]")
    sized = ("spark.sql.shuffle.partitions", "spark.default.parallelism")
    return {"spark.master": MASTER} | settings_of(config) | dict.fromkeys(sized, cores)


def peer_settings(settings: dict[str, str]) -> dict[str, str]:
    """Return these settings for another library, with deletion vectors on by default."""
    return settings | {DELETION_VECTORS: "true"}


def start(settings: dict[str, str], name: str):
    """Start and return a warm session with these settings."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(f"bench {name}")
    for setting, value in settings.items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
