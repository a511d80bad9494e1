"""Archive of Spark's classes: used if it exists, ignored if it does not fit."""

from pathlib import Path

import pytest

from elevata.bootstrap import jars as spark_jars
from elevata.bootstrap.console import Problem
from loader.engine.session import CLASS_ARCHIVE, RunnerConfig, settings_of

OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / CLASS_ARCHIVE).touch()
    return tmp_path


def test_runner_uses_the_class_archive_beside_its_jars(jars):
    settings = settings_of(RunnerConfig(warehouse="w", jars=str(jars), java_options="-Xss4m"))
    assert settings[OPTIONS] == f"-Xss4m -XX:SharedArchiveFile={jars / CLASS_ARCHIVE}"


def test_runner_without_a_class_archive_sets_no_java_option(tmp_path):
    assert OPTIONS not in settings_of(RunnerConfig(warehouse="w", jars=str(tmp_path)))


def test_the_jvm_that_makes_an_archive_does_not_read_one(jars):
    settings = settings_of(RunnerConfig(warehouse="w", jars=str(jars), java_options="-XX:ArchiveClassesAtExit=new"))
    assert settings[OPTIONS] == "-XX:ArchiveClassesAtExit=new"


def test_setup_and_runner_use_the_same_class_archive_name():
    assert spark_jars.ARCHIVE.name == CLASS_ARCHIVE


def test_setup_continues_without_a_class_archive_and_states_the_reason(monkeypatch):
    def fails(*_, **__):
        raise Problem("no archive of Spark's classes: this JVM makes none", "all of it is in build/setup.log")

    monkeypatch.setattr(spark_jars, "run", fails)
    assert spark_jars._make_archive().startswith("left out: no archive of Spark's classes: this JVM makes none")
