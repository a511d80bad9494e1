"""Conversation with the runner: an attempt that waits for an answer sends heartbeats and can be cancelled."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from elevata.core.database import retried
from elevata.jobs import states
from loader.contract.refusals import Refusal

# Seconds that a cancelled request may take to end before the runner is killed.
CANCEL_PATIENCE_SECONDS = 60.0

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
    def say(self, message: str, *, level: str, dataset_key: str | None) -> None: ...


class Stopped(Exception):
    """Error raised when a run must end: it was cancelled, or the worker is stopping."""


@dataclass
class Conversation:
    """Requests of one attempt to the runner. ``stopping`` is set when the worker must end."""

    attempt: SupportsHeartbeat
    runner: SupportsRequests
    stopping: threading.Event = field(default_factory=threading.Event)
    beat_every: float = states.HEARTBEAT_SECONDS
    _canceling: bool = False

    @property
    def is_to_stop(self) -> bool:
        return self._canceling or self.stopping.is_set()

    def ask(self, kind: str, manifest: Any, handle: Handler | None = None) -> dict:
        """Send a request, pass its events to ``handle``, and return its ``finished`` event. Raise Stopped or Fenced."""
        if self.is_to_stop:
            raise Stopped
        exchange = self.runner.request(kind, manifest)
        try:
            return self._listen(exchange, handle)
        except BaseException:
            exchange.cancel()  # nothing reads its events any more
            raise

    def _listen(self, exchange: SupportsExchange, handle: Handler | None) -> dict:
        cancelled_at: float | None = None
        next_beat = 0.0
        while True:
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + self.beat_every
                self._canceling = retried(self.attempt.heartbeat) == states.CANCELING
                cancelled_at = self._cancel_if_stopping(exchange, cancelled_at)
            event = exchange.next(timeout=max(0.0, next_beat - time.monotonic()))
            if event is None:
                continue
            if event["event"] == "finished":
                return event
            if event["event"] == "log":
                level, dataset = event.get("level", "info"), event.get("dataset")
                retried(partial(self.attempt.say, event["message"], level=level, dataset_key=dataset))
            elif handle is not None:
                handle(event)

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
