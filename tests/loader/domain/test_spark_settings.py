"""Settings of Spark: permitted settings of an installation, and defaults of the product."""

import pytest

from elevata.core.properties import parse_properties
from loader.domain import spark_settings
from loader.domain.spark_settings import PROMISES, is_cluster, problems_of, settings_of

CLUSTER = "spark://host:7077"


def reasons(text):
    return [problem.reason for problem in problems_of(parse_properties(text))]


def settings(text="", *, master="local[*]"):
    return settings_of(master=master, cores=4, own={setting.name: setting.value for setting in parse_properties(text)})


@pytest.mark.parametrize("name", sorted(PROMISES))
def test_setting_fixed_by_the_product_is_refused_with_any_value(name):
    (reason,) = reasons(f"{name} {PROMISES[name].value or 'x'}")
    assert reason.startswith("cannot be given here")
    assert reason.endswith(PROMISES[name].reason)


@pytest.mark.parametrize("name", ["spark.sql.legacy.timeParserPolicy", "spark.elevata.sources"])
def test_legacy_and_product_settings_are_refused(name):
    assert reasons(f"{name} x")[0].startswith("cannot be given here")


@pytest.mark.parametrize(
    "line",
    [
        "spark.executor.memory 4g",
        "spark.sql.shuffle.partitions 64",
        "spark.jars.packages org.example:thing:1.0",
        "spark.kubernetes.container.image=example/spark:1",
        "spark.hadoop.fs.s3a.endpoint=http://localhost:9000",
        "spark.hadoop.fs.s3a.secret.key={{ secret ELEVATA_SPARK_SECRET_S3 }}",
    ],
)
def test_settings_that_the_product_does_not_fix_are_accepted(line):
    assert reasons(line) == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("executor.memory 4g", "is no setting of Spark"),
        ("spark.executor.memory", "has no value"),
        ("spark.hadoop.fs.s3a.secret.key abc", "is a secret: write"),
        ("spark.hadoop.fs.s3a.bucket.b.access.key abc", "is a secret: write"),
        ("spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net abc", "is a secret: write"),
        ("spark.hadoop.fs.s3a.secret.key {{ secret PATH }}", "names the variable PATH"),
        ("spark.hadoop.fs.s3a.secret.key {{ secret ELEVATA_SECRET_KEY }}", "names the variable ELEVATA_SECRET_KEY"),
        ("spark.hadoop.fs.s3a.secret.key {{ secret ELEVATA_SPARK_SECRET_ }}", "names the variable"),
        ("spark.hadoop.fs.s3a.secret.key {{ env X }}", "has a {{"),
        ("spark.executor.memory {{ secret ELEVATA_SPARK_SECRET_M }}", "cannot be a secret by reference"),
    ],
)
def test_invalid_setting_is_refused_with_its_reason(line, reason):
    assert reasons(line)[0].startswith(reason)


def test_own_settings_override_defaults_but_not_fixed_settings():
    own = "spark.ui.enabled true\nspark.sql.ansi.enabled false\nspark.executor.cores 2"
    result = settings(own)
    assert (result["spark.ui.enabled"], result["spark.executor.cores"]) == ("true", "2")
    assert result["spark.sql.ansi.enabled"] == "true"
    assert settings()["spark.ui.enabled"] == "false"


def test_package_settings_are_excluded_from_session_settings():
    assert [name for name in settings("spark.jars.packages a:b:1") if name.startswith("spark.jars")] == []


def test_shuffle_partitions_equal_the_cores_of_the_machine_without_a_cluster():
    assert settings()[spark_settings.SHUFFLE_PARTITIONS] == "4"


def test_shuffle_settings_are_unset_on_a_cluster():
    assert spark_settings.SHUFFLE_PARTITIONS not in settings(master=CLUSTER)
    assert spark_settings.PARALLELISM not in settings(master=CLUSTER)


def test_configured_shuffle_partitions_are_kept_on_a_cluster():
    result = settings("spark.sql.shuffle.partitions 64", master=CLUSTER)
    assert result[spark_settings.SHUFFLE_PARTITIONS] == "64"


@pytest.mark.parametrize(
    ("master", "answer"),
    [("local", False), ("local[*]", False), ("local[2,3]", False), ("local-cluster[2,1,1024]", True), ("yarn", True)],
)
def test_a_master_is_a_cluster_if_its_executors_are_processes(master, answer):
    assert is_cluster(master) is answer
