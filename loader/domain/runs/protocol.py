"""The pipe between worker and runner: one JSON object a line, in both directions.

Requests go to the runner's standard input:
    {"id": …, "kind": "ping" | "observe" | "sizes" | "rehearse" | "execute" | "load" | "revert" | "prune" | "accept"
                  | "compact" | "read" | "check" | "replay", "body": manifest}
    {"id": …, "kind": "cancel"}          cancels the request of that id
    {"id": …, "kind": "ping"}            answered at once with ``finished``, whatever else is under way
Closing the pipe ends the runner: it dies with its worker.

Events come from a descriptor of its own (standard output carries log noise), each with the ``id``
of its request (none for ``ready`` and ``fatal``) and an ``event``:

    ready               pid, spark_version, seconds: the session is up, requests are taken
    fatal               error: the runner cannot go on
    log                 level, message, dataset (optional)
    dataset_started     dataset
    dataset_phase       dataset, phase
    dataset_finished    dataset, status, counts, drift, warnings, error, skipped_because,
                        version_before, version_after, seconds,
                        crowded: names of tables with too many small files
    step_started        ordinal, statement, version_before
    step_finished       ordinal, status, observed, version_after, error, seconds, rows (of a step that rewrites)
    case_finished       outcome (loader.domain.runs.replay.Outcome as JSON)
    finished            status: succeeded | failed | canceled; answer (observe, sizes, rehearse, revert, prune,
                        compact, read, check), error, unreadable (observe: keys of tables)

Every request gets exactly one ``finished``. A ``dataset`` is a stable key. ``error`` is a refusal
as JSON (``loader.domain.runs.refusals``).
"""

REQUEST_KINDS = (
    "ping",
    "observe",
    "sizes",
    "rehearse",
    "execute",
    "load",
    "revert",
    "prune",
    "accept",
    "compact",
    "read",
    "check",
    "replay",
)
EVENTS = (
    "ready",
    "fatal",
    "log",
    "dataset_started",
    "dataset_phase",
    "dataset_finished",
    "step_started",
    "step_finished",
    "case_finished",
    "finished",
)
