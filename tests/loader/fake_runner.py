"""Stand-in for the Spark runner that speaks the protocol and follows a script.

The script is a JSON file named by the argument, read for every request:

    fatal          refuse to start with this refusal
    mute           never send ready
    die_on         kind of request at which the process kills itself
    hang_on        kinds that are never answered (cancel works)
    deaf_on        kinds that are never answered, even when cancelled
    ignore_ping    pings are not answered
    observed       tables of the warehouse by stable key (changes with every step)
    sizes          rows, bytes and files of every existing table
    dry run      the answer of every dry run
    fail_steps     table names whose steps fail
    fail           dataset names that fail, with the refusal
    schemas        schemas of deliveries, by the name of the raw dataset
    checked        results of quality checks by dataset name
    held           number of the newest run in an accepted table
    seen           newest sequence number in the table of a maintenance run
    unreadable     stable keys of tables with a damaged log
    crowded        dataset names whose tables have too many small files
    answers        answers of reads, by kind; of checks, by the history's name
    findings       problems that remain after publishing, as rows of its answer
    no_catalog     refusal of every publication
    incomplete     the runner has no successful publication of all names, so a partial one does nothing
    commits        path of the commits of loads and maintenance runs
    pause          seconds that each dataset takes
    paused         datasets wait as long as the script has this
    step_pause     seconds that each step takes
    print          output on standard error for every request except pings, line by line
    log            message of an error with a traceback that is logged for it, as the real runner logs

Every request is appended to ``<script>.log`` for the tests, with the id of the process that got it.
"""

import json
import logging
import os
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from architecture.domain.steps.step import becomes
from loader.contract.manifest.codec import from_json
from loader.contract.manifest.executions import ExecuteManifest
from loader.contract.protocol import MarkedLines

SCRIPT = Path(sys.argv[1])
EVENTS = os.fdopen(int(os.environ["ELEVATA_EVENTS_FD"]), "w", buffering=1)
LOCK = threading.Lock()
CANCELED: dict[str, threading.Event] = {}


def script() -> dict:
    return json.loads(SCRIPT.read_text())


def emit(event: str, **fields) -> None:
    with LOCK:
        EVENTS.write(json.dumps({"event": event, **fields}) + "\n")


def answer(request: dict) -> None:
    kind, request_id, settings = request["kind"], request["id"], script()
    stop = CANCELED[request_id]
    if kind != "ping":
        speak(settings)
    if settings.get("die_on") == kind:
        os.kill(os.getpid(), signal.SIGKILL)
    if kind in settings.get("deaf_on", ()):
        threading.Event().wait()
    if kind in settings.get("hang_on", ()):
        stop.wait()
        emit("finished", id=request_id, status="canceled")
        return
    path = {"commits": settings["commits"]} if "commits" in settings else {}
    emit("finished", id=request_id, **path, **ANSWERS[kind](request_id, request.get("body"), settings, stop))


def speak(settings: dict) -> None:
    for line in settings.get("print", ()):
        print(line, file=sys.stderr, flush=True)
    if "log" in settings:
        try:
            raise ConnectionError(settings["log"])
        except ConnectionError:
            logging.getLogger("loader.engine.loads.load").exception("it failed: %s", settings["log"])


def observe(_id, body, settings, _stop) -> dict:
    known = settings.get("observed", {})
    there = [key for key in body["tables"] if key in known]
    tables = {key: known[key] for key in there if body.get("dropped") or not known[key].get("dropped")}
    unreadable = [key for key in body["tables"] if key in settings.get("unreadable", ())]
    if unreadable and not body["skip_unreadable"]:
        return {"status": "failed", "error": {"code": "UNREADABLE_TABLE", "message": f"{unreadable[0]} is damaged"}}
    answer = {key: table for key, table in tables.items() if key not in unreadable}
    errors = {key: {"code": "UNREADABLE_TABLE", "message": f"{key} is damaged"} for key in unreadable}
    return {"status": "succeeded", "answer": answer, "unreadable": errors}


def execute(request_id, body, settings, stop) -> dict:
    """Change each step's table to the step's result, and update the script at once."""
    known = settings.get("observed", {})
    manifest = from_json(ExecuteManifest, body)
    for ordinal, step in enumerate(manifest.steps):
        if ordinal in manifest.done:
            continue
        if stop.wait(settings.get("step_pause", 0)):
            return {"status": "canceled"}
        key = step.table.key
        before = known.get(key, {}).get("version")
        emit("step_started", id=request_id, ordinal=ordinal, statement=f"do {step.op}", version_before=before)
        if step.table.name in settings.get("fail_steps", ()):
            error = {"code": "STEP_FAILED", "message": f"{step.op} did not work"}
            emit("step_finished", id=request_id, ordinal=ordinal, status="failed", error=error)
            return {"status": "failed"}
        shape, version = becomes(step), 0 if before is None else before + 1
        known[key] = {"key": key, "version": version, **asdict(shape)}
        SCRIPT.write_text(json.dumps({**settings, "observed": known}))
        emit(
            "step_finished",
            id=request_id,
            ordinal=ordinal,
            status="succeeded",
            observed=None if shape.dropped else known[key],
            version_after=version,
            seconds=0.01,
        )
    return {"status": "succeeded"}


def publish(_id, body, settings, _stop) -> dict:
    if "no_catalog" in settings:
        return {"status": "failed", "error": settings["no_catalog"]}
    if "incomplete" in settings and not body["whole"]:
        return {"status": "succeeded", "answer": {"names": 0, "findings": [], "incomplete": True}}
    return {"status": "succeeded", "answer": {"names": len(body["names"]), "findings": settings.get("findings", [])}}


def sizes(_id, body, settings, _stop) -> dict:
    known = settings.get("observed", {})
    size = settings.get("sizes", {"rows": 3, "bytes": 1000, "files": 1})
    return {
        "status": "succeeded",
        "answer": {key: {"version": known[key]["version"], **size} for key in body["tables"] if key in known},
    }


def dry_run(_id, body, settings, _stop) -> dict:
    answer = {"succeeded": True, "error": None, "steps": [], "tables": {}, "queries": []}
    return {"status": "succeeded", "answer": settings.get("dry_run", answer)}


def load(request_id, body, settings, stop) -> dict:
    done = dict.fromkeys(body["already_done"], "succeeded")
    names = {entry["dataset"]: entry["name"] for entry in body["raw"] + body["rawcore"]}
    emit("log", id=request_id, level="info", message=f"loading {len(names)} datasets")
    for entry in body["raw"] + body["rawcore"]:
        key, name = entry["dataset"], entry["name"]
        if key in done:
            continue
        stopped = [upstream for upstream in entry["depends_on"] if done.get(upstream) != "succeeded"]
        if stop.is_set():
            done[key] = "canceled"
            emit("dataset_finished", id=request_id, dataset=key, status="canceled")
            continue
        if stopped:
            done[key] = "skipped"
            because = names[stopped[0]]
            emit("dataset_finished", id=request_id, dataset=key, status="skipped", skipped_because=because)
            continue
        emit("dataset_started", id=request_id, dataset=key)
        emit("dataset_phase", id=request_id, dataset=key, phase="working")
        stop.wait(settings.get("pause", 0))
        while script().get("paused") and not stop.wait(0.02):
            pass
        if key in body["refused"]:
            done[key] = "failed"
            emit("dataset_finished", id=request_id, dataset=key, status="failed", error=body["refused"][key])
            continue
        if name in settings.get("checked", {}):
            emit("dataset_checked", id=request_id, dataset=key, results=settings["checked"][name])
        if name in settings.get("fail", {}):
            done[key] = "failed"
            refusal = settings["fail"][name]
            schema = settings.get("schemas", {}).get(name)
            failed = {"status": "failed", "error": refusal, "schema": schema}
            emit("dataset_finished", id=request_id, dataset=key, seconds=0.1, **failed)
            continue
        if stop.is_set():
            done[key] = "canceled"
            emit("dataset_finished", id=request_id, dataset=key, status="canceled")
            continue
        done[key] = "succeeded"
        counts = {"rows": 3, "duplicates": 0} | ({"new": 3, "open": 3, "versions": 3} if entry.get("history") else {})
        emit(
            "dataset_finished",
            id=request_id,
            dataset=key,
            status="succeeded",
            counts=counts,
            version_before=0,
            version_after=1,
            seconds=0.1,
            crowded=[name] if name in settings.get("crowded", ()) else None,
            schema=settings.get("schemas", {}).get(name),
        )
    if stop.is_set():
        return {"status": "canceled"}
    ok = all(status == "succeeded" for status in done.values())
    return {"status": "succeeded" if ok else "failed"}


def perform_run(request_id, body, settings, stop) -> dict:
    """Answer a revert, prune, compaction or acceptance, which fails if its dataset is listed in ``fail``."""
    about = body.get("load", body)
    key = about["dataset"]
    emit("dataset_started", id=request_id, dataset=key)
    stop.wait(settings.get("pause", 0))
    refusal = settings.get("fail", {}).get(about["name"])
    status = "failed" if refusal else "canceled" if stop.is_set() else "succeeded"
    counts = {"versions": 2, "open": 2} if status == "succeeded" and "load" in body else {}
    counts |= settings.get("disk_use", {})
    leading = (about.get("history") or about.get("table") or {}).get("key")
    version = settings.get("observed", {}).get(leading, {}).get("version")
    ended = {"status": status, "counts": counts, "error": refusal, "version_after": version}
    emit("dataset_finished", id=request_id, dataset=key, seconds=0.1, **ended)
    result = {"version_before": 4, "version_after": 5}
    if "held" in settings and "load" in body:
        result |= {"held": settings["held"], "sequence": max(body["load"]["sequence"], settings.get("seen", 0) + 1)}
    result |= settings.get("disk_use", {})
    tables = {about["name"]: result}
    if "targets" in body:
        copied = {"status": "copied", "version": 5, "row_count": 3, "checksum": "7", "mode": "replace", "seconds": 0.1}
        done = copied | {"warnings": [], "error": None, "changed": None}
        failed = done | {"status": "failed", "version": None, "row_count": None, "error": refusal}
        copies = {target["key"]: failed if refusal else done for target in body["targets"]}
        return {"status": status, "answer": {"tables": {}, "copies": copies}}
    return {"status": status, "answer": {"tables": tables if status == "succeeded" else {}}}


def read(_id, body, settings, _stop) -> dict:
    answers = settings.get("answers", {})
    if body["kind"] not in answers:
        return {"status": "failed", "error": {"code": "NO_TABLE", "message": "it is not there"}}
    return {"status": "succeeded", "answer": answers[body["kind"]]}


def check(_id, body, settings, _stop) -> dict:
    answers = settings.get("answers", {})
    if body["name"] not in answers:
        return {"status": "failed", "error": {"code": "NO_TABLE", "message": "it is not there"}}
    answer = answers[body["name"]]
    return {"status": "failed", "error": answer} if "code" in answer else {"status": "succeeded", "answer": answer}


def ping(_id, _body, _told, _stop) -> dict:
    return {"status": "succeeded"}


ANSWERS = {
    "publish": publish,
    "observe": observe,
    "execute": execute,
    "sizes": sizes,
    "dry_run": dry_run,
    "load": load,
    "read": read,
    "check": check,
    "ping": ping,
}
ANSWERS |= dict.fromkeys(("revert", "prune", "compact", "accept", "vacuum", "quarantine_decision", "copy"), perform_run)


def main() -> None:
    printed = logging.StreamHandler()
    printed.setFormatter(MarkedLines())
    logging.basicConfig(level=logging.INFO, handlers=[printed])
    settings = script()
    if "fatal" in settings:
        emit("fatal", error=settings["fatal"])
        sys.exit(1)
    if not settings.get("mute"):
        emit("ready", pid=os.getpid(), seconds=0.0)
    for line in sys.stdin:
        request = json.loads(line)
        with SCRIPT.with_suffix(".log").open("a") as log:
            log.write(json.dumps({**request, "pid": os.getpid()}) + "\n")
        if request["kind"] == "cancel":
            CANCELED.get(request["id"], threading.Event()).set()
        elif request["kind"] != "ping" or not script().get("ignore_ping"):
            CANCELED[request["id"]] = threading.Event()
            threading.Thread(target=answer, args=(request,), name=request["id"], daemon=True).start()
    os._exit(0)


main()
