"""The API under load: requests at fixed times, independent of earlier answers (open loop).

CLIENTS programs send REQUESTS in all, RATE a second, to the API of a large control database.
"""

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bench.runner import Measure, Run, say
from bench.web.served import database, web
from bench.web.size import Size

P95_MS = 250
# As docker-compose.yml and docs/operate/operations.md start it.
_WORKERS, _THREADS = 2, 4
CHANGE, WRITES = "change of a column", 0.1
# Readings of programs between writes: how often of a hundred, and a path from a random choice, datasets and columns.
_READINGS: dict[str, tuple[int, Callable[[random.Random, list[str], list[str]], str]]] = {
    "list of datasets": (
        20,
        lambda draw, datasets, _: f"datasets/?page={draw.randint(1, max(1, len(datasets) // 50))}",
    ),
    "list of columns": (10, lambda draw, datasets, columns: "columns/?cursor="),
    "one dataset": (30, lambda draw, datasets, _: f"datasets/{draw.choice(datasets)}/"),
    "one column": (15, lambda draw, _, columns: f"columns/{draw.choice(columns)}/"),
    "text search": (10, lambda draw, *_: f"datasets/?q={draw.choice(('customer', 'invoice', 'price', 'order'))}"),
    "list of load runs": (10, lambda *_: "load-runs/"),
    "list of reports": (5, lambda *_: "reports/"),
}


class Request(NamedTuple):
    """Request of a client. One with a ``body`` first reads the object and then changes it."""

    name: str
    path: str
    body: dict[str, str] | None = None


class Answer(NamedTuple):
    """Result of a request; ``ms`` counts from its due time, so it includes queueing. ``problem`` is an error."""

    name: str
    ms: float
    problem: str = ""


def take(run: Run) -> dict[str, Any]:
    options = run.options
    run.enter(database(run.folder))
    # Django is set up by now, and not before.
    from bench.web.control import fill
    from elevata.accounts.services.tokens import create_token
    from elevata.audit.models import ChangeLogEntry
    from elevata.audit.services.verification import verify_chain
    from metadata.models import TargetColumn, TargetDataset

    control = fill(Size(datasets=options.datasets), say)
    logged, editors = ChangeLogEntry.objects.count(), control.people["editors"]
    tokens = [create_token(user=editors[n % len(editors)], name=f"c{n}")[1] for n in range(options.clients)]
    rows = [model.objects.order_by("pk").values_list("key", flat=True) for model in (TargetDataset, TargetColumn)]
    keys = [[str(key) for key in some[:20_000]] for some in rows]
    each = options.requests // options.clients
    requests = [list(_requests(each, n, options.clients, *keys)) for n in range(options.clients)]
    served = run.enter(web(control.people["everything"], run.folder, workers=_WORKERS, threads=_THREADS))
    served.get("/healthz")
    answers = _answers([Client(served.port, token) for token in tokens], requests, options.rate)
    names = sorted({answer.name for answer in answers})
    return {
        "answers": len(answers),
        "problems": dict(Counter(answer.problem for answer in answers if answer.problem).most_common(10)),
        "writes": sum(1 for answer in answers if answer.name == CHANGE and not answer.problem),
        "writes_logged": ChangeLogEntry.objects.count() - logged,
        "chain": "intact" if verify_chain().intact else "broken",
        "all": _times([answer.ms for answer in answers]),
        "by_kind": {name: _times([answer.ms for answer in answers if answer.name == name]) for name in names},
    }


def _requests(count: int, client: int, clients: int, datasets: list[str], columns: list[str]) -> Iterator[Request]:
    """Yield ``count`` requests of one client; no two clients write the same column."""
    draw, own = random.Random(client), columns[client::clients]
    weights = [weight for weight, _ in _READINGS.values()]
    for number in range(count):
        if draw.random() < WRITES:
            body = {"description": f"Written by client {client}, request {number}."}
            yield Request(CHANGE, f"/api/v1/columns/{draw.choice(own)}/", body)
        else:
            name = draw.choices(list(_READINGS), weights)[0]
            yield Request(name, f"/api/v1/{_READINGS[name][1](draw, datasets, columns)}")


class Client:
    """API client with a token and a persistent connection."""

    def __init__(self, port: int, token: str) -> None:
        self._headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, request: Request, due: float) -> list[Answer]:
        """Send a request; a write first reads its object, and both requests are counted."""
        if request.body is None:
            return [self._timed(request, due)[0]]
        read, tag = self._timed(Request("read before a write", request.path), due)
        # The write is due when its reading is there: a program can't know the tag before.
        return [read] if read.problem else [read, self._timed(request, time.perf_counter(), tag)[0]]

    def _timed(self, request: Request, due: float, tag: str = "") -> tuple[Answer, str]:
        method, body = ("PATCH", json.dumps(request.body)) if request.body else ("GET", None)
        headers = self._headers | ({"If-Match": tag} if tag else {})
        problem, etag = "", ""
        try:
            self._connection.request(method, request.path, body, headers)
            answer = self._connection.getresponse()
            content, etag = answer.read(), answer.headers.get("ETag", "")
            if answer.status != 200:
                problem = f"{answer.status}: {content[:200].decode(errors='replace')}"
        except (OSError, http.client.HTTPException) as failed:
            self._connection.close()
            problem = f"{type(failed).__name__}: {failed}"
        return Answer(request.name, (time.perf_counter() - due) * 1000, problem), etag


def _answers(clients: list[Client], requests: list[list[Request]], rate: float) -> list[Answer]:
    """Send each client's list evenly, at ``rate`` requests a second in total."""
    answers: list[Answer] = []
    begin, gap = time.perf_counter() + 1, len(clients) / rate

    def run(number: int) -> None:
        for turn, request in enumerate(requests[number]):
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
    p95, problems = document["all"]["p95_ms"], sum(document["problems"].values())
    met = "met" if p95 < P95_MS and not problems else "**missed**"
    lines = [
        f"{document['answers']} answers at {document['rate']:g} requests a second from {document['clients']} clients, "
        f"one in ten a write: p95 {p95} ms (wanted: under {P95_MS}), {problems} errors — {met}. "
        f"{document['writes']} writes, {document['writes_logged']} entries in the change log, "
        f"the chain is {document['chain']}.",
        "",
        "| request | count | median | p95 | p99 | longest |",
        "|---|---|---|---|---|---|",
    ]
    for name, times in document["by_kind"].items():
        count, *spent = times.values()
        lines.append(f"| {name} | {count} | {' | '.join(f'{ms} ms' for ms in spent)} |")
    return "\n".join(lines)


MEASURE = Measure(
    take,
    sizes={"requests": 20_000, "rate": 20.0, "clients": 20, "datasets": Size.datasets},
    markdown=as_markdown,
)
