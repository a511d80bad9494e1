"""Runner: a child process with one warm Spark session, driven by JSON lines.

It is started by ``python -m loader.engine.runner`` with ELEVATA_RUNNER_CONFIG (``loader.engine.session.RunnerConfig``
as JSON) and ELEVATA_EVENTS_FD (the descriptor for events; default standard output). The protocol is
``loader.contract.protocol``. The runner ends, with its JVM, when its standard input closes, so it never outlives its
worker.
"""

import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from elevata.core.installation import user_command
from loader.contract.manifest.codec import from_json
from loader.contract.manifest.copies import CopyManifest
from loader.contract.manifest.executions import DryRunManifest, ExecuteManifest, ObserveManifest, SizesManifest
from loader.contract.manifest.loads import LoadManifest
from loader.contract.manifest.publication import PublishManifest
from loader.contract.manifest.reads import CheckManifest, ReadManifest, ReplayManifest
from loader.contract.protocol import MarkedLines
from loader.contract.refusals import Refusal
from loader.domain.model_tests import ModelTests
from loader.domain.reference.cases import parse_cases, select
from loader.domain.spark_failures import cause_of, cause_of_death
from loader.domain.spark_settings import is_cluster
from loader.engine.catalogs.publication import publish_names
from loader.engine.historization import invariants
from loader.engine.java_errors import JAVA_ERRORS, accident, first_line, thrown_by
from loader.engine.loads.load import CANCELED, FAILED, LoadAttempt, unreadable_table
from loader.engine.maintenance.maintenance_runs import MANIFESTS, perform_run
from loader.engine.queries import reads
from loader.engine.queries.model_tests import run_tests
from loader.engine.replay import replay
from loader.engine.session import UMASK, RunnerConfig, fit_shuffles, start_session
from loader.engine.tables import commit_paths, commits, steps
from loader.engine.tables.dry_run import dry_run
from loader.engine.tables.sizes import sizes
from loader.engine.tables.tables import DeltaTable

log = logging.getLogger("loader.engine.runner")

# Requests that a runner of reads answers.
OF_READS = ("ping", "read", "check")
# Seconds between two checks of a cluster's executors, and seconds without executors after which the runner ends.
_WATCH_EVERY, _ALONE_FOR = 5, 120
_JAVA = 17


class Events:
    """Thread-safe writer of events, one JSON object a line."""

    def __init__(self, descriptor: int):
        self._file = os.fdopen(descriptor, "w", buffering=1, encoding="utf-8")
        self._lock = threading.Lock()

    def emit(self, event: str, **fields) -> None:
        line = json.dumps({"event": event} | {name: value for name, value in fields.items() if value is not None})
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()


class Runner:
    """Request loop; each request runs in its own thread and ends with exactly one ``finished`` event."""

    def __init__(self, spark: SparkSession, config: RunnerConfig, events: Events):
        self._spark, self._config, self._events = spark, config, events
        self._cancels: dict[str, threading.Event] = {}
        self._kinds: dict[str, Callable[..., dict]] = {
            "ping": lambda _id, _body: {},
            "observe": self._observe,
            "execute": self._execute,
            "sizes": self._sizes,
            "dry_run": self._dry_run,
            "load": self._load,
            **{kind: partial(self._perform_run, kind) for kind in MANIFESTS},
            "read": self._read,
            "publish": self._publish,
            "check": self._check,
            "replay": self._replay,
            "model_tests": self._model_tests,
        }
        if config.reads_only:
            self._kinds = {kind: self._kinds[kind] for kind in OF_READS}

    def take(self, request: dict) -> None:
        """Start a request, or cancel a running one."""
        if request["kind"] == "cancel":
            event = self._cancels.get(request["id"])
            if event is not None:
                event.set()
                self._spark.sparkContext.cancelJobGroup(request["id"])
            return
        self._cancels[request["id"]] = threading.Event()
        threading.Thread(target=self._answer, args=(request,), name=request["id"], daemon=True).start()

    def _answer(self, request: dict) -> None:
        request_id = request["id"]
        try:
            kind = self._kinds.get(request["kind"])
            if kind is None:
                raise Refusal("UNKNOWN_REQUEST", f"There is no request of kind {request['kind']}")
            fit_shuffles(self._spark)
            secrets = {"secrets": request["secrets"]} if "secrets" in request else {}
            answer = {"status": "succeeded"} | kind(request_id, request.get("body") or {}, **secrets)
        except Refusal as refusal:
            answer = {"status": "failed", "error": refusal.as_json()}
        except Exception as failure:  # any error must reach the worker
            log.exception("request %s failed", request_id)
            answer = {"status": "failed", "error": accident(request["kind"], failure).as_json()}
        finally:
            self._cancels.pop(request_id, None)
        try:
            is_stopped = self._spark.sparkContext._jsc.sc().isStopped()
        except (*JAVA_ERRORS, OSError):  # the Java process is gone, which ``watch_java`` reports for every request
            return
        if is_stopped:
            self._end_process(_STOPPED)
        self._events.emit("finished", id=request_id, **answer)

    def _end_process(self, why: Refusal) -> None:
        """End the process, since no request can succeed; the worker starts another runner for the next request."""
        log.error("%s", why.one_line())
        self._events.emit("fatal", error=why.as_json())
        os._exit(1)

    def watch_java(self) -> None:
        """End the runner as soon as its Java process has ended."""
        gateway: Any = SparkContext._gateway  # Any: py4j has no types
        how, hint = cause_of_death(gateway.proc.wait())
        remedy = "Then run again under the same ID: finished parts are not repeated."
        self._end_process(Refusal("SPARK_GONE", f"Spark's Java process {how}", hint=f"{hint} {remedy}".strip()))

    def watch_cluster(self) -> None:
        """End the runner if the cluster has no executors while a request is active.

        Without its master, Spark would wait for executors forever.
        """
        context, alone_since = self._spark.sparkContext._jsc.sc(), None
        while not context.isStopped():
            time.sleep(_WATCH_EVERY)
            # The status includes the driver.
            alone = context.getExecutorMemoryStatus().size() <= 1 and bool(self._cancels)
            alone_since = (alone_since or time.monotonic()) if alone else None
            if alone_since is not None and time.monotonic() - alone_since > _ALONE_FOR:
                self._end_process(_NO_EXECUTORS)

    def _observe(self, _request_id: str, body: dict) -> dict:
        manifest = from_json(ObserveManifest, body)
        tables, unreadable = {}, {}
        for key in manifest.tables:
            try:
                table = DeltaTable(self._spark, self._config.warehouse, key).observe()
            except Exception as failure:  # another program may have written its log: the others are observed
                refusal = unreadable_table(self._config.warehouse, key, failure)
                if not manifest.skip_unreadable:
                    raise refusal from failure
                log.warning("%s", refusal.one_line(), exc_info=failure)
                unreadable[key] = refusal.as_json()
                continue
            if table is not None and (manifest.dropped or not table.dropped):
                tables[table.key] = asdict(table)
        return {"answer": tables, "unreadable": unreadable}

    def _execute(self, request_id: str, body: dict) -> dict:
        manifest = from_json(ExecuteManifest, body)
        canceled = self._cancels[request_id]
        done = steps.execute(
            self._spark,
            self._config.warehouse,
            manifest.steps,
            self._emitter(request_id),
            execution=manifest.execution,
            done=manifest.done,
            canceled=canceled,
            sensitive=manifest.sensitive,
        )
        return {} if done else {"status": CANCELED if canceled.is_set() else FAILED}

    def _sizes(self, _request_id: str, body: dict) -> dict:
        manifest = from_json(SizesManifest, body)
        return {"answer": sizes(self._spark, self._config.warehouse, manifest.tables)}

    def _dry_run(self, request_id: str, body: dict) -> dict:
        manifest = from_json(DryRunManifest, body)
        warehouse, canceled = self._config.warehouse, self._cancels[request_id]
        answer = dry_run(self._spark, warehouse, manifest, self._emitter(request_id), canceled)
        return {"answer": answer} if answer is not None else {"status": CANCELED}

    def _load(self, request_id: str, body: dict, secrets: Mapping[str, str] | None = None) -> dict:
        manifest = from_json(LoadManifest, body).with_passwords(secrets or {})
        attempt = LoadAttempt(
            self._spark,
            self._config.warehouse,
            manifest,
            self._emitter(request_id),
            self._cancels[request_id],
            request_id,
        )
        return {"status": attempt.run(), "commits": commits.path_in_use().as_json()}

    def _perform_run(self, kind: str, request_id: str, body: dict, secrets: Mapping[str, str] | None = None) -> dict:
        manifest = from_json(MANIFESTS[kind], body)
        if isinstance(manifest, CopyManifest):
            manifest = manifest.with_passwords(secrets or {})
        emit, canceled = self._emitter(request_id), self._cancels[request_id]
        done = perform_run(self._spark, self._config.warehouse, kind, manifest, emit, canceled, request_id)
        return done | {"commits": commits.path_in_use().as_json()}

    def _read(self, request_id: str, body: dict) -> dict:
        manifest = from_json(ReadManifest, body)
        return {"answer": reads.read(self._spark, self._config.warehouse, manifest, request_id)}

    def _publish(self, _request_id: str, body: dict) -> dict:
        manifest = from_json(PublishManifest, body)
        return {"answer": publish_names(self._spark, self._config.warehouse, manifest)}

    def _check(self, request_id: str, body: dict) -> dict:
        manifest = from_json(CheckManifest, body)
        return {"answer": invariants.check(self._spark, self._config.warehouse, manifest, request_id)}

    def _replay(self, request_id: str, body: dict) -> dict:
        manifest = from_json(ReplayManifest, body)
        emit = self._emitter(request_id)
        cases = select(parse_cases(manifest.cases), manifest.only)
        replay(
            self._spark,
            self._config.warehouse,
            cases,
            lambda outcome: emit("case_finished", outcome=outcome.as_json()),
        )
        return {}

    def _model_tests(self, request_id: str, body: dict) -> dict:
        emit = self._emitter(request_id)
        run_tests(
            self._spark,
            from_json(ModelTests, body),
            lambda outcome: emit("case_finished", outcome=asdict(outcome)),
        )
        return {}

    def _emitter(self, request_id: str) -> Callable[..., None]:
        return lambda event, **fields: self._events.emit(event, id=request_id, **fields)


_STOPPED = Refusal(
    "SPARK_STOPPED",
    "Spark ended its session",
    hint="Usually its master or all executors were lost: see the runner's log. The next request starts it again.",
)


_NO_EXECUTORS = Refusal(
    "NO_EXECUTORS",
    f"the cluster has given no executor for {_ALONE_FOR} s",
    hint="Check its master and workers. Then run again under the same ID: finished parts are not repeated.",
)


def _start_refusal(failure: Exception, config: RunnerConfig) -> Refusal:
    if isinstance(failure, Refusal):
        return failure
    about = "Spark did not start"
    hint = _java_problem()
    if not hint:
        hint = "Its Java process ended: it was killed, or lacked memory. The runner's log and the system's say why."
        if config.conf:
            hint += " Or Spark refuses one of the settings in ELEVATA_SPARK_CONF."
        hint += " The next request starts it again."
    return cause_of(about, thrown_by(failure)) or Refusal(
        "SPARK_DID_NOT_START", f"{about}: {first_line(failure)}", hint=hint
    )


def _java_problem() -> str:
    """Return what to do if Java is missing or too old; empty if it is there."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        printed = None
    version = re.search(r'version "(\d+)', printed.stderr) if printed is not None else None
    if version is not None and int(version[1]) >= _JAVA:
        return ""
    return f"Java {_JAVA} or newer must be on the PATH or in JAVA_HOME; run '{user_command('setup')}'."


def _end_first() -> None:
    """Have Linux end this process, and the JVM that it starts, before others if the machine lacks memory."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError as error:  # another system, or one that does not permit it
        log.info("the system was not told to end the runner of reads first: %s", error)


def main() -> int:
    os.umask(UMASK)
    # The worker reads this output and writes the log.
    handler = logging.StreamHandler()
    handler.setFormatter(MarkedLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("py4j").setLevel(logging.WARNING)
    events = Events(int(os.environ.get("ELEVATA_EVENTS_FD", "1")))
    started = time.monotonic()
    # Removed, so that neither the JVM nor Python workers inherit its secrets.
    config = RunnerConfig(**json.loads(os.environ.pop("ELEVATA_RUNNER_CONFIG")))
    if config.reads_only:
        _end_first()
    try:
        spark = start_session(config)
        path = commit_paths.choose_path(spark, config.commits)
    except Exception as failure:  # Java or master missing, bad configuration: the worker shows one line
        log.exception("Spark did not start")
        events.emit("fatal", error=_start_refusal(failure, config).as_json())
        return 1
    commits.use(path)
    log.info("commits to tables are %s: %s", path.name, path.reason)
    events.emit(
        "ready",
        pid=os.getpid(),
        spark_version=spark.version,
        seconds=round(time.monotonic() - started, 2),
        commits=path.as_json(),
    )
    runner = Runner(spark, config, events)
    threading.Thread(target=runner.watch_java, name="java", daemon=True).start()
    if is_cluster(config.master):
        threading.Thread(target=runner.watch_cluster, name="cluster", daemon=True).start()
    for line in sys.stdin:
        if line.strip():
            runner.take(json.loads(line))
    # The worker died or closed the input. Running jobs can be abandoned, because commits are atomic.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
