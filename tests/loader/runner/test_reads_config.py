"""Configuration of the runner of reads, and the requests that it answers."""

from loader.engine.runner import OF_READS, Runner
from loader.engine.session import RunnerConfig
from loader.runner.supervisor import reads_config, runner_config


def test_the_runner_of_reads_has_its_own_memory_and_only_reads(settings):
    settings.READS_MEMORY, settings.READS_MASTER = "700m", ""
    settings.DRIVER_JAVA_OPTIONS, settings.SPARK_MASTER = "-Dx=y", "local[8]"
    config = reads_config()
    assert (config["driver_memory"], config["master"], config["reads_only"]) == ("700m", "local[8]", True)
    assert config["java_options"] == "-Dx=y -XX:+ExitOnOutOfMemoryError"
    assert runner_config()["driver_memory"] == settings.DRIVER_MEMORY
    assert "reads_only" not in runner_config()


def test_reads_of_a_cluster_work_on_this_machine_unless_a_master_is_given(settings):
    settings.SPARK_MASTER, settings.READS_MASTER = "spark://host:7077", ""
    assert reads_config()["master"] == "local[*]"
    settings.READS_MASTER = "spark://host:7078"
    assert reads_config()["master"] == "spark://host:7078"


def test_the_runner_of_reads_has_no_request_that_writes():
    kinds = Runner(None, RunnerConfig(warehouse="", reads_only=True), None)._kinds
    assert set(kinds) == set(OF_READS) == {"ping", "read", "check"}
    assert {"load", "execute", "publish"} <= set(Runner(None, RunnerConfig(warehouse=""), None)._kinds)
