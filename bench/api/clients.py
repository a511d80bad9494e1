"""Clients that send requests at fixed times; waiting behind a slow answer counts as response time."""

import http.client
import json
import threading
import time
from dataclasses import dataclass

from bench.api.requests import Asked

_TIMEOUT = 60


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
