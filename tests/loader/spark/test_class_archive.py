"""Archive of Spark's classes: used if it exists, and harmless if it does not fit."""

from pathlib import Path

import pytest

from elevata.bootstrap import jars as spark_jars
from elevata.bootstrap.console import Problem
from loader.spark.session import CLASS_ARCHIVE, RunnerConfig, settings_of

OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / CLASS_ARCHIVE).touch()
    return tmp_path


def test_a_runner_takes_the_archive_beside_its_jars(jars):
    settings = settings_of(RunnerConfig(warehouse="w", jars=str(jars), java_options="-Xss4m"))
    assert settings[OPTIONS] == f"-Xss4m -XX:SharedArchiveFile={jars / CLASS_ARCHIVE}"


def test_a_runner_without_an_archive_asks_for_none(tmp_path):
    assert OPTIONS not in settings_of(RunnerConfig(warehouse="w", jars=str(tmp_path)))


def test_the_jvm_that_makes_an_archive_does_not_read_one(jars):
    settings = settings_of(RunnerConfig(warehouse="w", jars=str(jars), java_options="-XX:ArchiveClassesAtExit=new"))
    assert settings[OPTIONS] == "-XX:ArchiveClassesAtExit=new"


def test_set_up_looks_where_the_runner_does():
    assert spark_jars.ARCHIVE.name == CLASS_ARCHIVE


def test_set_up_goes_on_without_an_archive_and_says_why(monkeypatch):
    def fails(*_, **__):
        raise Problem("no archive of Spark's classes: this JVM makes none", "all of it is in build/setup.log")

    monkeypatch.setattr(spark_jars, "run", fails)
    assert spark_jars._make_archive().startswith("left out: no archive of Spark's classes: this JVM makes none")
