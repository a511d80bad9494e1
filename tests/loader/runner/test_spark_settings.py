"""Spark settings of an installation: the file ELEVATA_SPARK_CONF, as checks, workers and the runner read it."""

import runpy

import pytest
from django.core.exceptions import ImproperlyConfigured

from elevata import settings as elevata_settings
from elevata.ops import checks
from loader import tasks
from loader.contract.refusals import Refusal
from loader.runner.spark_settings import own_settings
from loader.runner.supervisor import runner_config


@pytest.fixture
def conf(tmp_path, settings):
    """Return a function that writes the installation's settings of Spark to a file."""

    def write(text):
        file = tmp_path / "spark.conf"
        file.write_text(text)
        settings.SPARK_CONF = str(file)
        return file

    return write


def test_runner_config_contains_the_settings_of_the_file_with_their_lines(conf):
    file = conf("# ours\nspark.executor.memory 4g\n")
    config = runner_config()
    assert config["conf"] == {"spark.executor.memory": "4g"}
    assert config["places"] == {"spark.executor.memory": f"{file}:2"}


@pytest.mark.parametrize("path", ["auto", "direct", "public"])
def test_runner_config_contains_the_commit_path(settings, path):
    settings.COMMITS = path
    assert runner_config()["commits"] == path


def test_unknown_commit_path_is_refused_with_the_permitted_values(monkeypatch):
    monkeypatch.setenv("ELEVATA_COMMITS", "merge")
    with pytest.raises(ImproperlyConfigured, match="ELEVATA_COMMITS is 'merge': it must be auto, direct or public"):
        runpy.run_path(elevata_settings.__file__)


def test_referenced_secrets_are_read_and_kept_out_of_the_session_settings(conf, monkeypatch, tmp_path):
    secret_file = tmp_path / "held"
    secret_file.write_text("sesame\n")
    monkeypatch.setenv("ELEVATA_SPARK_SECRET_S3_FILE", str(secret_file))
    conf("spark.hadoop.fs.s3a.secret.key {{ secret ELEVATA_SPARK_SECRET_S3 }}")
    config = runner_config()
    assert config["secrets"] == {"spark.hadoop.fs.s3a.secret.key": "sesame"}
    assert config["conf"] == {}


def test_missing_secret_is_refused_with_file_and_line(conf):
    file = conf("spark.hadoop.fs.s3a.secret.key {{ secret ELEVATA_SPARK_SECRET_GONE }}")
    with pytest.raises(Refusal, match=rf"{file}:1: .*ELEVATA_SPARK_SECRET_GONE is not set"):
        own_settings()


def test_a_refused_setting_stops_check_worker_and_runner_with_file_and_line(conf):
    file = conf("spark.executor.memory 4g\nspark.sql.session.timeZone Europe/Berlin\n")
    (error,) = checks.spark_settings_are_accepted()
    assert error.msg.startswith(f"{file}:2: spark.sql.session.timeZone cannot be given here (it is UTC)")
    assert error.id == "elevata.E002"
    with pytest.raises(Refusal, match=f"{file}:2"):
        runner_config()
    with pytest.raises(SystemExit, match=f"{file}:2"):
        tasks._check()


def test_unreadable_settings_file_is_an_error_of_the_system_check(settings, tmp_path):
    settings.SPARK_CONF = str(tmp_path / "gone.conf")
    assert "gone.conf cannot be read: No such file" in checks.spark_settings_are_accepted()[0].msg


def test_accepted_settings_file_passes_the_system_check(conf):
    conf("spark.executor.memory 4g\n")
    assert checks.spark_settings_are_accepted() == []


def test_a_catalog_that_the_file_does_not_define_is_a_warning(conf, settings):
    settings.CATALOG = "spark:unity"
    conf("spark.executor.memory 4g\n")
    (warning,) = checks.catalog_is_defined()
    assert (warning.id, "the catalog unity, which Spark does not know" in warning.msg) == ("elevata.W007", True)
    conf("spark.sql.catalog.unity com.example.Catalog\n")
    assert checks.catalog_is_defined() == []
    settings.CATALOG = "thrift://m:9083"
    conf("")
    assert checks.catalog_is_defined() == []


def test_packages_that_set_up_did_not_fetch_are_a_warning(settings, tmp_path, monkeypatch):
    settings.SPARK_JARS = str(tmp_path)
    (tmp_path / "coordinates").write_text("io.delta:delta-spark_4.2_2.13:4.4.0\norg.example:thing:1.0\n")
    monkeypatch.setenv("ELEVATA_SPARK_PACKAGES", "org.example:thing:1.0")
    assert checks.packages_were_fetched() == []
    monkeypatch.setenv("ELEVATA_SPARK_PACKAGES", "org.example:thing:2.0")
    assert "org.example:thing:2.0" in checks.packages_were_fetched()[0].msg
