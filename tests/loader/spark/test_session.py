"""Sessions of a runner: values that Spark refuses, secrets of Hadoop, shuffles that follow the cluster."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from loader.domain.refusals import Refusal
from loader.domain.spark_settings import INITIAL_PARTITIONS, SHUFFLE_PARTITIONS
from loader.spark import session as sessions
from loader.spark.session import RunnerConfig, _check_settings, _set_secrets, error_condition, fit_shuffles


class FakeSession:
    """Session of a context with a master, so many cores, and settings given."""

    def __init__(self, master, cores, **given):
        conf = SimpleNamespace(contains=given.__contains__)
        self.sparkContext = SimpleNamespace(master=master, defaultParallelism=cores, _conf=conf)
        self.conf = self
        self.settings = {}

    def set(self, name, value):
        self.settings[name] = value


@pytest.mark.core
@pytest.mark.parametrize(("cores", "partitions", "initial"), [(0, "2", "32"), (12, "12", "192")])
def test_a_clusters_sessions_shuffle_by_its_cores(cores, partitions, initial):
    session = fit_shuffles(FakeSession("spark://host:7077", cores))
    assert session.settings == {SHUFFLE_PARTITIONS: partitions, INITIAL_PARTITIONS: initial}


@pytest.mark.core
def test_a_given_number_is_left_as_it_is():
    assert fit_shuffles(FakeSession("spark://host:7077", 12, **{SHUFFLE_PARTITIONS: "64"})).settings == {}


@pytest.mark.core
def test_without_a_cluster_the_start_decided():
    assert fit_shuffles(FakeSession("local[4]", 4)).settings == {}


@pytest.mark.core
@pytest.mark.parametrize(
    ("contexts", "condition"),
    [
        ([SimpleNamespace(fragment=lambda: "CAST(mail\n  AS INT)")], "CAST_INVALID_INPUT, at CAST(mail AS INT)"),
        ([], "CAST_INVALID_INPUT"),
    ],
)
def test_a_condition_of_spark_names_the_sql_and_no_value(contexts, condition):
    error = PySparkException("The value 'ada@x' cannot be cast", contexts=contexts)
    error.getCondition = lambda: "CAST_INVALID_INPUT"
    assert error_condition(error) == condition


@pytest.mark.core
def test_an_error_without_a_condition_of_spark_has_none():
    assert error_condition(ValueError("ada@x")) == ""


@pytest.mark.core
@pytest.mark.spark
@pytest.mark.parametrize(("name", "value"), [("spark.executor.memory", "1x"), ("spark.sql.shuffle.partitions", "many")])
def test_a_value_that_spark_refuses_is_named_with_its_line_and_reason(spark, name, value):
    config = RunnerConfig(warehouse="w", conf={name: value}, places={name: "spark.conf:3"})
    with pytest.raises(Refusal, match=rf"spark.conf:3: {name}: Spark refuses '{value}': ") as caught:
        _check_settings(config)
    assert "An error occurred" not in caught.value.message


@pytest.mark.core
@pytest.mark.spark
def test_values_that_spark_accepts_or_does_not_know_pass(spark):
    given = {"spark.executor.memory": "4g", "spark.hadoop.fs.s3a.endpoint": "x", "spark.executor.cores": "${cores}"}
    _check_settings(RunnerConfig(warehouse="w", conf=given))


@pytest.mark.core
@pytest.mark.spark
def test_secrets_are_in_hadoops_configuration_and_no_setting_of_spark(spark):
    _set_secrets(spark, {"spark.hadoop.fs.test.secret.key": "sesame"})
    assert spark.newSession()._jsparkSession.sessionState().newHadoopConf().get("fs.test.secret.key") == "sesame"
    assert "sesame" not in str(spark.sparkContext.getConf().getAll())


@pytest.mark.core
def test_only_one_function_persists_rows():
    """Spark shares cached rows among datasets with equal plans, which ``persisted`` prevents."""
    engine = Path(sessions.__file__).parent
    files = [file for file in engine.rglob("*.py") if file != Path(sessions.__file__)]
    assert [str(file) for file in files if any(call in file.read_text() for call in (".persist(", ".cache()"))] == []
