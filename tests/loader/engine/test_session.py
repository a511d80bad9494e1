"""Sessions of a runner: values that Spark refuses, secrets of Hadoop, shuffles that follow the cluster."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from loader.contract.refusals import Refusal
from loader.domain.spark_settings import INITIAL_PARTITIONS, SHUFFLE_PARTITIONS
from loader.engine import session as sessions
from loader.engine.java_errors import error_condition
from loader.engine.session import RunnerConfig, _check_settings, _set_secrets, fit_shuffles


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
def test_shuffle_partitions_follow_the_cores_of_a_cluster(cores, partitions, initial):
    session = fit_shuffles(FakeSession("spark://host:7077", cores))
    assert session.settings == {SHUFFLE_PARTITIONS: partitions, INITIAL_PARTITIONS: initial}


@pytest.mark.core
def test_configured_shuffle_partitions_are_kept():
    assert fit_shuffles(FakeSession("spark://host:7077", 12, **{SHUFFLE_PARTITIONS: "64"})).settings == {}


@pytest.mark.core
def test_local_session_sets_no_shuffle_partitions():
    assert fit_shuffles(FakeSession("local[4]", 4)).settings == {}


@pytest.mark.core
@pytest.mark.parametrize(
    ("contexts", "condition"),
    [
        ([SimpleNamespace(fragment=lambda: "CAST(mail\n  AS INT)")], "CAST_INVALID_INPUT, at CAST(mail AS INT)"),
        ([], "CAST_INVALID_INPUT"),
    ],
)
def test_error_condition_names_the_sql_and_no_value(contexts, condition):
    error = PySparkException("The value 'ada@x' cannot be cast", contexts=contexts)
    error.getCondition = lambda: "CAST_INVALID_INPUT"
    assert error_condition(error) == condition


@pytest.mark.core
def test_error_condition_is_empty_for_an_error_that_is_not_from_spark():
    assert error_condition(ValueError("ada@x")) == ""


@pytest.mark.core
@pytest.mark.spark
@pytest.mark.parametrize(("name", "value"), [("spark.executor.memory", "1x"), ("spark.sql.shuffle.partitions", "many")])
def test_refused_spark_setting_is_named_with_its_line_and_reason(spark, name, value):
    config = RunnerConfig(warehouse="w", conf={name: value}, places={name: "spark.conf:3"})
    with pytest.raises(Refusal, match=rf"spark.conf:3: {name}: Spark refuses '{value}': ") as caught:
        _check_settings(config)
    assert "An error occurred" not in caught.value.message


@pytest.mark.core
@pytest.mark.spark
def test_accepted_or_unknown_spark_settings_pass(spark):
    given = {"spark.executor.memory": "4g", "spark.hadoop.fs.s3a.endpoint": "x", "spark.executor.cores": "${cores}"}
    _check_settings(RunnerConfig(warehouse="w", conf=given))


@pytest.mark.core
@pytest.mark.spark
def test_secrets_are_stored_in_the_hadoop_configuration_and_not_in_spark_settings(spark):
    _set_secrets(spark, {"spark.hadoop.fs.test.secret.key": "sesame"})
    assert spark.newSession()._jsparkSession.sessionState().newHadoopConf().get("fs.test.secret.key") == "sesame"
    assert "sesame" not in str(spark.sparkContext.getConf().getAll())


@pytest.mark.core
def test_rows_are_persisted_only_in_the_sessions_module():
    """Spark shares cached rows among datasets with equal plans, which ``persisted`` prevents."""
    engine = Path(sessions.__file__).parent
    files = [file for file in engine.rglob("*.py") if file != Path(sessions.__file__)]
    assert [str(file) for file in files if any(call in file.read_text() for call in (".persist(", ".cache()"))] == []
