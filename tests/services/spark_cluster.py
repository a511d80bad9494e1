"""Standalone Spark cluster on this machine: a master, and two workers with a core each."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEPLOY = "org.apache.spark.deploy"
_START_SECONDS = 60


class Cluster:
    """Spark master and workers, started by pyspark's own scripts; ``folder`` has their logs and files."""

    def __init__(self, folder: Path, *, memory: str = "1g"):
        self._folder, self._processes = folder, []
        folder.mkdir(parents=True)
        self.master = self._master()
        for number in (1, 2):
            self._start(
                f"worker-{number}",
                *(f"{DEPLOY}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1"),
                *("--memory", memory, "--work-dir", str(folder / f"work-{number}"), self.master),
            )
        self._wait_for("master", r"(?s)Registering worker.*Registering worker")

    def _master(self) -> str:
        self._start("master", f"{DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        return self._wait_for("master", r"Starting Spark master at (spark://\S+)").group(1)

    def _start(self, name: str, *command: str) -> None:
        import pyspark

        script = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with (self._folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                [str(script), *command],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1"},
            )
        self._processes.append(process)

    def _wait_for(self, name: str, pattern: str) -> re.Match:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            match = re.search(pattern, (self._folder / f"{name}.log").read_text())
            if match:
                return match
            time.sleep(0.2)
        raise AssertionError((self._folder / f"{name}.log").read_text()[-2000:])

    def executors(self) -> list[int]:
        """Return the process ids of the executors that run now."""
        running = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                folder, command = (process / "cwd").readlink(), (process / "cmdline").read_bytes()
            except OSError:  # the process has ended
                continue
            if folder.is_relative_to(self._folder) and b"CoarseGrainedExecutorBackend" in command:
                running.append(int(process.name))
        return running

    def executors_ran(self) -> bool:
        return any((self._folder / f"work-{number}").glob("app-*/*") for number in (1, 2))

    def stop(self) -> None:
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for executor in self.executors():
            os.kill(executor, signal.SIGKILL)
        self._processes.clear()


@contextmanager
def running_cluster(folder: Path, *, memory: str = "1g") -> Iterator[str]:
    """Yield the address of a cluster's master; each worker has ``memory``. The folder is removed at the end."""
    shutil.rmtree(folder, ignore_errors=True)
    cluster = Cluster(folder, memory=memory)
    try:
        yield cluster.master
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
