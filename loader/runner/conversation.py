"""Conversation with the runner: an attempt that waits for an answer sends heartbeats and can be cancelled."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from elevata.core.database import retried
from elevata.jobs import states
from loader.contract.refusals import Refusal

# Seconds that a cancelled request may take to end before the runner is killed.
CANCEL_PATIENCE_SECONDS = 60.0

# Seconds for which the worker waits longer than the runner's own limit, and then for the end of a cancelled request.
GRACE_SECONDS = 15.0

# Function that takes an event of a request.
Handler = Callable[[dict], None]


class SupportsExchange(Protocol):
    def next(self, timeout: float) -> dict | None: ...
    def cancel(self) -> None: ...


class SupportsRequests(Protocol):
    """Interface of ``loader.runner.supervisor.Runner`` that attempts use."""

    def request(self, kind: str, manifest: Any) -> SupportsExchange: ...
    def wait_until_ready(self, timeout: float) -> dict | None: ...
    def kill(self, why: Refusal) -> None: ...


class SupportsHeartbeat(Protocol):
    """Interface of an attempt that a conversation uses. Both methods raise Fenced if the attempt is not current."""

    def heartbeat(self) -> str: ...
    def say(self, message: str, *, level: str = "info", dataset_key: str | None = None) -> None: ...


class Stopped(Exception):
    """Error raised when a run must end: it was cancelled, or the worker is stopping."""


@dataclass(frozen=True)
class TimeLimit:
    """Seconds that an answer may take from the start of Spark; a stopping worker does not wait for it either.

    The runner limits the time itself, so this is a safeguard. With ``may_kill``, a runner is killed that goes on with a
    request which is not wanted any more.
    """

    seconds: float
    may_kill: bool = False

    def deadline(self) -> float:
        return time.monotonic() + self.seconds + GRACE_SECONDS


@dataclass
class Conversation:
    """Requests of one attempt to the runner. ``stopping`` is set when the worker must end."""

    attempt: SupportsHeartbeat
    runner: SupportsRequests
    stopping: threading.Event = field(default_factory=threading.Event)
    beat_every: float = field(default_factory=lambda: states.HEARTBEAT_SECONDS)
    _canceling: bool = False

    @property
    def is_to_stop(self) -> bool:
        return self._canceling or self.stopping.is_set()

    def ask(self, kind: str, manifest: Any, handle: Handler | None = None, *, limit: TimeLimit | None = None) -> dict:
        """Send a request, pass its events to ``handle``, and return its ``finished`` event.

        Raise Stopped, Fenced, or Refusal READ_TIMEOUT after the limit.
        """
        if self.is_to_stop:
            raise Stopped
        exchange = self.runner.request(kind, manifest)
        try:
            return self._listen(exchange, handle, limit)
        except BaseException as error:
            exchange.cancel()  # nothing reads its events any more
            if limit is not None and limit.may_kill and not isinstance(error, Stopped):
                self._kill_unless_ended(exchange)
            raise

    def _listen(self, exchange: SupportsExchange, handle: Handler | None, limit: TimeLimit | None) -> dict:
        cancelled_at: float | None = None
        next_beat, deadline = 0.0, limit.deadline() if limit is not None else math.inf
        while True:
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + self.beat_every
                self._canceling = retried(self.attempt.heartbeat) == states.CANCELING
                if limit is None:
                    cancelled_at = self._cancel_if_stopping(exchange, cancelled_at)
            if limit is not None and self.is_to_stop:
                raise Stopped
            event = exchange.next(timeout=max(0.0, min(next_beat, deadline) - time.monotonic()))
            if event is not None and event["event"] == "finished":
                return event
            if limit is not None:
                deadline = self._within(limit, deadline)
            if event is None:
                continue
            if event["event"] == "log":
                level, dataset = event.get("level", "info"), event.get("dataset")
                retried(partial(self.attempt.say, event["message"], level=level, dataset_key=dataset))
            elif handle is not None:
                handle(event)

    def _within(self, limit: TimeLimit, deadline: float) -> float:
        """Return the deadline, a later one while Spark starts. Raise Refusal READ_TIMEOUT after it."""
        if self.runner.wait_until_ready(0) is None:
            return limit.deadline()
        if time.monotonic() >= deadline:
            raise Refusal(
                "READ_TIMEOUT",
                f"there was no answer within {limit.seconds:.0f} seconds",
                hint="read less, or try again when no load is running",
            )
        return deadline

    def _kill_unless_ended(self, exchange: SupportsExchange) -> None:
        """Kill the runner, unless a cancelled request ends within the grace."""
        deadline = time.monotonic() + GRACE_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            event = exchange.next(timeout=left)
            if event is not None and event["event"] == "finished":
                return
        message = f"a cancelled read was still running after {GRACE_SECONDS:.0f} seconds"
        self.runner.kill(Refusal("READ_NOT_CANCELED", message))

    def _cancel_if_stopping(self, exchange: SupportsExchange, cancelled_at: float | None) -> float | None:
        if not self.is_to_stop:
            return None
        if cancelled_at is None:
            exchange.cancel()
            return time.monotonic()
        if time.monotonic() - cancelled_at > CANCEL_PATIENCE_SECONDS:
            self.runner.kill(
                Refusal("NOT_CANCELED", f"the runner did not cancel within {CANCEL_PATIENCE_SECONDS:.0f} seconds")
            )
        return cancelled_at


def answer_of(finished: Mapping[str, Any]) -> dict[str, Any]:
    """Return the runner's answer. Raise its error as a Refusal."""
    if finished.get("error"):
        raise Refusal.from_json(finished["error"])
    return finished.get("answer") or {}
