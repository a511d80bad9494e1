"""Owner of a runner process, and of the data folder's lock if the runner writes.

Several requests may be under way at once; each has its own queue of events. The runner is started
on first use and restarted after its end, and never outlives the process that owns it.
"""

import json
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from django.conf import settings

from elevata.core.log_context import what_about
from elevata.core.secrets import NoSecret, secret_named
from elevata.core.words import counted
from loader.contract.manifest.codec import to_json
from loader.contract.manifest.copies import CopyManifest
from loader.contract.manifest.loads import LoadManifest
from loader.contract.protocol import Said
from loader.contract.refusals import READS_ENDED, Refusal
from loader.domain.catalogs.catalog_setting import metastore_addresses
from loader.domain.spark_failures import cause_of_death
from loader.domain.spark_settings import is_cluster
from loader.runner.child_process import Child
from loader.runner.folder_lock import FolderLock
from loader.runner.runner_log import RunnerLog, Subjects
from loader.runner.spark_settings import own_settings
from loader.services.sources.specs import source_roots

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-m", "loader.engine.runner")
CONFIG = "ELEVATA_RUNNER_CONFIG"


@dataclass(frozen=True)
class Patience:
    """Time limits of the owner, in seconds, after which the runner counts as hanging.

    ``start``: until it is ready. ``silence``: without an event before it is pinged. ``ping``: until the ping is
    answered. ``look``: between two checks. ``idle``: without a request after which a runner of reads ends; by default
    the installation's.
    """

    start: float = 120.0
    silence: float = 30.0
    ping: float = 60.0
    look: float = 5.0
    idle: float | None = None


@dataclass(frozen=True)
class Purpose:
    """Purpose of a runner: its configuration and the name of its log.

    A runner that ``writes`` holds the lock of the data folder. The other one only reads; it ends when it is idle, and
    may be killed at any time.
    """

    config: Callable[[], dict[str, Any]]
    log: str
    writes: bool


class Exchange:
    """One request and the events that answer it."""

    def __init__(self, owner: "Runner", request_id: str):
        self.id = request_id
        self._owner = owner
        self._events: queue.SimpleQueue[dict] = queue.SimpleQueue()

    def next(self, timeout: float) -> dict | None:
        """Return the next event, or None if there is none within ``timeout`` seconds."""
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return None

    def cancel(self) -> None:
        """Ask the runner to stop this request; its ``finished`` event still follows."""
        self._owner.tell({"id": self.id, "kind": "cancel"})

    def put(self, event: dict) -> None:
        self._events.put(event)


def runner_config() -> dict[str, Any]:
    """Return the configuration of the runner and its Spark session. Raise Refusal SPARK_SETTINGS."""
    return {
        "warehouse": settings.WAREHOUSE,
        "master": settings.SPARK_MASTER,
        "jars": settings.SPARK_JARS,
        "driver_memory": settings.DRIVER_MEMORY,
        "java_options": settings.DRIVER_JAVA_OPTIONS,
        "environment": settings.ENVIRONMENT,
        "log_level": "ERROR",
        "source_roots": [str(place) for place in source_roots().places],
        "closed_folders": list(source_roots().closed),
        "source_hosts": [host.strip() for host in settings.SOURCE_HOSTS if host.strip()],
        "landing": settings.LANDING,
        "landing_runs": settings.LANDING_RUNS,
        "commits": settings.COMMITS,
        "metastore": metastore_addresses(settings.CATALOG),
        "metastore_version": settings.METASTORE_VERSION,
        "metastore_jars": settings.METASTORE_JARS,
    } | own_settings()


def reads_config() -> dict[str, Any]:
    """Return the configuration of the runner of reads. Raise Refusal SPARK_SETTINGS.

    Its Spark works on this machine unless the settings name a master for it: a cluster may give all its cores to the
    loads' application. It ends as soon as its memory is used up, instead of working on slowly.
    """
    config, here = runner_config(), "local[*]" if is_cluster(settings.SPARK_MASTER) else settings.SPARK_MASTER
    return config | {
        "master": settings.READS_MASTER or here,
        "driver_memory": settings.READS_MEMORY,
        "java_options": f"{config['java_options']} -XX:+ExitOnOutOfMemoryError".strip(),
        "reads_only": True,
    }


LOADS = Purpose(runner_config, "runner.log", writes=True)
READS = Purpose(reads_config, "reads.log", writes=False)


class Runner:
    """Runner of a data folder. Its methods may be called from any thread."""

    def __init__(
        self,
        *,
        holder: str,
        purpose: Purpose = LOADS,
        config: Mapping[str, Any] | None = None,
        folder: Path | None = None,
        command: Sequence[str] = COMMAND,
        patience: Patience = Patience(),
    ):
        """Prepare the runner without starting it.

        ``holder`` names this owner in the error of a second owner that finds the folder locked.
        """
        self._holder, self._command, self._patience = holder, tuple(command), patience
        self._purpose, self._fixed, self._config = purpose, config, dict(config or {})
        self._folder = folder or Path(settings.DATA_DIR)
        self.log_file = self._folder / "logs" / purpose.log
        self._log, self._subjects = RunnerLog(self.log_file), Subjects()
        self._lock = FolderLock(self._folder)
        self._guard = threading.RLock()
        self._numbers = count(1)
        self._open: dict[str, Exchange] = {}
        self._child: Child | None = None
        self._ready: dict | None = None
        self._is_ready = threading.Event()
        self._why: Refusal | None = None
        self._last_event = 0.0
        self._pinged: tuple[str, float] | None = None
        self._closed = threading.Event()

    @property
    def pid(self) -> int | None:
        """Return the process id of the runner, None while it does not run."""
        child = self._child
        return child.pid if child else None

    def start(self) -> None:
        """Start the runner if it does not run. Raise Refusal ``warehouse_busy`` if the folder has another one."""
        with self._guard:
            if self._closed.is_set():
                raise Refusal("RUNNER_CLOSED", "the worker is ending and takes no more requests")
            if self._child is not None:
                return
            self._config = dict(self._fixed or self._purpose.config())
            if self._purpose.writes:
                self._lock.acquire(self._holder)
            self._ready, self._why, self._pinged = None, None, None
            self._is_ready.clear()
            self._last_event = time.monotonic()
            self._child = Child(
                self._command,
                environment={CONFIG: json.dumps(self._config)} | _java(),
                folder=Path(settings.BASE_DIR),
                inherited=[] if self._lock.descriptor is None else [self._lock.descriptor],
                on_event=self._take,
                on_said=self._write_down,
                on_end=self._ended,
            )
            threading.Thread(target=self._watch, args=(self._child,), name="runner-watch", daemon=True).start()

    def wait_until_ready(self, timeout: float) -> dict | None:
        """Return the runner's ``ready`` event, after at most ``timeout`` seconds; None if it is not ready yet."""
        self._is_ready.wait(timeout)
        return self._ready

    def request(self, kind: str, manifest: Any) -> Exchange:
        """Send a request; return its exchange, which receives its events, the last of them always ``finished``."""
        self._renew()
        with self._guard:
            self.start()
            exchange = Exchange(self, f"{kind}-{next(self._numbers)}")
            self._open[exchange.id] = exchange
            self._subjects.begin(exchange.id, what_about())
            self.tell({"id": exchange.id, "kind": kind, "body": to_json(manifest)} | _secrets_for(manifest))
        return exchange

    def _renew(self) -> None:
        """End an idle runner whose configuration (a secret, for example) has changed; the next start reads it."""
        with self._guard:
            child = self._child
            if child is None or self._open or self._fixed is not None or self._purpose.config() == self._config:
                return
            self._child = None
        log.info("the runner's configuration has changed: it is started again")
        child.close()

    def _end_if_idle(self, child: Child) -> None:
        """End a runner of reads that had no request for some minutes; the next request starts another one."""
        idle = settings.READS_IDLE_SECONDS if self._patience.idle is None else self._patience.idle
        with self._guard:
            waits = self._child is not child or self._open or time.monotonic() - self._last_event < idle
            if self._purpose.writes or waits or not idle:
                return
            self._child = None
        log.info("the runner of reads is idle: it ends until the next read")
        child.close()

    def tell(self, message: Mapping) -> None:
        """Send a message if the runner is alive."""
        child = self._child
        if child is not None:
            child.send(message)

    def kill(self, why: Refusal) -> None:
        """End a runner that does not answer; its requests fail with ``why``."""
        with self._guard:
            child, self._why = self._child, why
        if child is not None:
            log.error("killing the runner: %s", why.one_line())
            child.kill()

    def close(self) -> None:
        """End the runner and release the data folder."""
        self._closed.set()
        child = self._child
        if child is not None:
            child.close()
        self._log.close()
        self._lock.release()

    def _take(self, event: dict) -> None:
        self._last_event = time.monotonic()
        self._pinged = None
        if event["event"] == "ready":
            self._ready = event
            self._is_ready.set()
            log.info("the runner is ready after %s s (process %s)", event.get("seconds"), event.get("pid"))
            commits = event.get("commits") or {}
            log.info("the runner's commits are %s: %s", commits.get("name"), commits.get("reason"))
        elif event["event"] == "fatal":
            self._why = Refusal.from_json(event["error"])
        else:
            finished = event["event"] == "finished"
            with self._guard:
                exchange = (self._open.pop if finished else self._open.get)(event.get("id") or "", None)
            if finished:
                self._subjects.end(event.get("id", ""))
            if exchange is not None:
                exchange.put(event)

    def _write_down(self, line: Said) -> None:
        self._log.write(line, self._subjects.of(line))

    def _ended(self, child: Child, code: int) -> None:
        """Fail all requests under way after the runner has ended."""
        with self._guard:
            if self._child is not child:  # ``_renew`` had ended it, because it was idle
                return
            self._child = None
            orphans, self._open = list(self._open.values()), {}
            error = self._why or self._died(code)
            if not self._purpose.writes and self._ready is not None:
                error = self._reads_ended(error, len(orphans))
            self._is_ready.set()
        if orphans or not self._closed.is_set():
            log.warning("the runner ended: %s", error.message)
        for exchange in orphans:
            self._subjects.end(exchange.id)
            exchange.put({"event": "finished", "id": exchange.id, "status": "failed", "error": error.as_json()})

    def _died(self, code: int) -> Refusal:
        how, hint = cause_of_death(code)
        return Refusal(
            "RUNNER_DIED",
            f"the Spark runner {how}",
            hint=f"{hint} Its log is {self.log_file}; it is started again by the next request.".strip(),
        )

    def _reads_ended(self, why: Refusal, reads: int) -> Refusal:
        """Return the error of the reads that were under way when their runner ended."""
        beside = f"; {counted(reads, 'read')} ran in it" if reads > 1 else ""
        return Refusal(
            READS_ENDED,
            f"the runner of reads ended before it answered: {why.message}{beside}",
            hint="Loads are not affected. Usually a read took too much memory (ELEVATA_READS_MEMORY) or time: read "
            f"fewer or shorter values, and join by conditions. See the worker's logs/{self._purpose.log}.",
        )

    def _watch(self, child: Child) -> None:
        """Kill a runner that takes too long to start or no longer answers, and end an idle runner of reads."""
        while self._child is child and not self._closed.wait(self._patience.look):
            self._end_if_idle(child)
            silent = time.monotonic() - self._last_event
            if self._ready is None:
                if silent > self._patience.start:
                    self.kill(self._hangs("SPARK_DID_NOT_START", f"Spark did not start in {silent:.0f} s"))
            elif self._pinged is not None:
                if time.monotonic() - self._pinged[1] > self._patience.ping:
                    self.kill(self._hangs("RUNNER_HUNG", "the Spark runner no longer answers"))
            elif self._open and silent > self._patience.silence:
                ping = f"ping-{next(self._numbers)}"
                self._pinged = (ping, time.monotonic())
                self.tell({"id": ping, "kind": "ping"})

    def _hangs(self, code: str, message: str) -> Refusal:
        return Refusal(code, message, hint=f"it was ended; its log is {self.log_file}")


def _secrets_for(manifest: Any) -> dict[str, dict[str, str]]:
    """Return the passwords of the systems that a load reads or a copy run writes to, by the name of each secret.

    They go beside the manifest, for this request only. The runner refuses the sources whose secret is missing.
    """
    secrets: dict[str, str] = {}
    for name in sorted(manifest.secrets) if isinstance(manifest, LoadManifest | CopyManifest) else ():
        try:
            secrets[name] = secret_named(name)
        except NoSecret as reason:
            log.warning("a password is missing: %s", reason)
    return {"secrets": secrets} if secrets else {}


def _java() -> dict[str, str]:
    """Return JAVA_HOME for the runner; nothing if neither the environment nor set-up names one."""
    return {"JAVA_HOME": settings.JAVA_HOME} if settings.JAVA_HOME else {}
