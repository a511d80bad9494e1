"""The API under load: requests at fixed times, independent of earlier answers (open loop)."""

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.runner import Measure, Run, say
from bench.web.served import database, web
from bench.web.size import Size

P95_MS = 250
# As docker-compose.yml and docs/operate/operations.md start it.
_WORKERS, _THREADS = 2, 4
CHANGE = "change of a column"
WRITES = 0.1
# What programs do between writes, and how often of a hundred readings.
_READINGS = (
    ("list of datasets", 20),
    ("list of columns", 10),
    ("one dataset", 30),
    ("one column", 15),
    ("text search", 10),
    ("list of load runs", 10),
    ("list of reports", 5),
)
_TIMEOUT = 60


def take(run: Run) -> dict[str, Any]:
    options = run.options
    run.enter(database(run.folder))
    # Django is set up by now, and not before.
    from bench.web.control import fill
    from elevata.accounts.services.tokens import create_token
    from elevata.audit.models import ChangeLogEntry
    from elevata.audit.services.verification import verify_chain

    size = Size(datasets=options.datasets)
    control = fill(size, say)
    logged = ChangeLogEntry.objects.count()
    each, editors = options.requests // options.clients, control.people["editors"]
    asked = [list(requests(each, size.seed, number, options.clients)) for number in range(options.clients)]
    tokens = [create_token(user=editors[number % len(editors)], name=f"c{number}")[1] for number in range(len(asked))]
    served = run.enter(web(control.people["everything"], run.folder, workers=_WORKERS, threads=_THREADS))
    served.get("/healthz")
    answers = in_turns([Client(served.port, token) for token in tokens], asked, options.rate)
    return {
        "answers": len(answers),
        "problems": dict(Counter(answer.problem for answer in answers if answer.problem).most_common(10)),
        "writes": sum(1 for answer in answers if answer.name == CHANGE and not answer.problem),
        "writes_logged": ChangeLogEntry.objects.count() - logged,
        "chain": "intact" if verify_chain().intact else "broken",
        "all": _times([answer.ms for answer in answers]),
        "by_kind": {
            name: _times([answer.ms for answer in answers if answer.name == name])
            for name in sorted({answer.name for answer in answers})
        },
    }


@dataclass(frozen=True)
class Asked:
    """One request. ``of`` is the column that a write reads and then changes."""

    name: str
    path: str
    of: str = ""
    body: dict[str, Any] = field(default_factory=dict)


def requests(count: int, seed: int, client: int, clients: int) -> Iterator[Asked]:
    """Yield ``count`` requests of one client; no two clients write the same column."""
    from metadata.models import TargetColumn, TargetDataset

    draw = random.Random(f"{seed}/{client}")
    datasets = [str(key) for key in TargetDataset.objects.order_by("pk").values_list("key", flat=True)]
    columns = [str(key) for key in TargetColumn.objects.order_by("pk").values_list("key", flat=True)[:20_000]]
    own = columns[client::clients]
    names, weights = zip(*_READINGS, strict=True)
    for number in range(count):
        if draw.random() < WRITES:
            key = draw.choice(own)
            text = f"Written by client {client}, request {number}."
            yield Asked(CHANGE, f"/api/v1/columns/{key}/", key, {"description": text})
            continue
        name = draw.choices(names, weights)[0]
        yield Asked(name, _path(name, draw, datasets, columns))


def _path(name: str, draw: random.Random, datasets: list[str], columns: list[str]) -> str:
    match name:
        case "list of datasets":
            return f"/api/v1/datasets/?page={draw.randint(1, len(datasets) // 50)}"
        case "list of columns":
            return "/api/v1/columns/?cursor="
        case "one dataset":
            return f"/api/v1/datasets/{draw.choice(datasets)}/"
        case "one column":
            return f"/api/v1/columns/{draw.choice(columns)}/"
        case "text search":
            return f"/api/v1/datasets/?q={draw.choice(('customer', 'invoice', 'price', 'order'))}"
        case "list of load runs":
            return "/api/v1/load-runs/"
        case _:
            return "/api/v1/reports/"


@dataclass(frozen=True)
class Answer:
    """Result of a request; ``ms`` counts from its due time, so it includes queueing. ``problem`` is an error."""

    name: str
    ms: float
    problem: str = ""


class Client:
    """API client with a token and a persistent connection."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._headers = port, {"Authorization": f"Token {token}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)

    def ask(self, asked: Asked, due: float) -> list[Answer]:
        """Send a request; a write first reads its object, and both requests are counted."""
        if not asked.of:
            return [self._timed(asked.name, "GET", asked.path, due)[0]]
        read, tag = self._timed("read before a write", "GET", asked.path, due)
        if read.problem:
            return [read]
        # The write is due when its reading is there: a program can't know the tag before.
        return [read, self._timed(asked.name, "PATCH", asked.path, time.perf_counter(), asked.body, tag)[0]]

    def _timed(
        self, name: str, method: str, path: str, due: float, body: dict | None = None, tag: str = ""
    ) -> tuple[Answer, str]:
        headers = self._headers | ({"If-Match": tag} if tag else {})
        try:
            self._connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as failed:
            self._connection.close()
            return Answer(name, (time.perf_counter() - due) * 1000, f"{type(failed).__name__}: {failed}"), ""
        problem = "" if answer.status == 200 else f"{answer.status}: {content[:200].decode(errors='replace')}"
        return Answer(name, (time.perf_counter() - due) * 1000, problem), answer.headers.get("ETag", "")


def in_turns(clients: list[Client], asked: list[list[Asked]], rate: float) -> list[Answer]:
    """Send each client's list evenly, at ``rate`` requests a second in total."""
    answers: list[Answer] = []
    begin, gap = time.perf_counter() + 1, len(clients) / rate

    def run(number: int) -> None:
        for turn, request in enumerate(asked[number]):
            due = begin + turn * gap + number / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            answers.extend(clients[number].ask(request, due))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def _times(ms: list[float]) -> dict[str, float]:
    ms = sorted(ms)
    at = {"median_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    quantiles = {name: round(ms[min(len(ms) - 1, int(part * len(ms)))]) for name, part in at.items()}
    return {"count": len(ms)} | quantiles | {"longest_ms": round(ms[-1])}


def as_markdown(document: dict[str, Any]) -> str:
    """Return the results as a table for docs/operate/performance.md."""
    all_, problems = document["all"], sum(document["problems"].values())
    met = "met" if all_["p95_ms"] < P95_MS and not problems else "**missed**"
    lines = [
        f"{document['answers']} answers at {document['rate']:g} requests a second from {document['clients']} clients, "
        f"one in ten a write: p95 {all_['p95_ms']} ms (wanted: under {P95_MS}), {problems} errors — {met}. "
        f"{document['writes']} writes, {document['writes_logged']} entries in the change log, "
        f"the chain is {document['chain']}.",
        "",
        "| request | count | median | p95 | p99 | longest |",
        "|---|---|---|---|---|---|",
    ]
    for name, times in document["by_kind"].items():
        spent = " | ".join(f"{times[measure]} ms" for measure in ("median_ms", "p95_ms", "p99_ms", "longest_ms"))
        lines.append(f"| {name} | {times['count']} | {spent} |")
    return "\n".join(lines)


MEASURE = Measure(
    "api",
    "Send REQUESTS in all, RATE a second, from CLIENTS programs to the API of a large control database.",
    take,
    sizes={"requests": 20_000, "rate": 20.0, "clients": 20, "datasets": Size.datasets},
    markdown=as_markdown,
)
