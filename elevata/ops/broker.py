"""Embedded broker, and the interval of the scheduler.

kombu's filesystem transport has two faults that this one mends. It writes a message under its final name, so another
process may read an incomplete message, and its consumer ends. It also assumes that its folders exist: without them a
worker ends, and sent messages are lost.
"""

import os
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from celery.schedules import schedule
from kombu.exceptions import ChannelError
from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """Channel that writes messages atomically and recreates its folders."""

    def get_table(self, exchange: str) -> list[filesystem.exchange_queue_t]:
        """Return the queues bound to an exchange, from the folder or else from this process's memory."""
        bound = self.state.exchanges.get(exchange, {}).get("table", [])
        return super().get_table(exchange) or [filesystem.exchange_queue_t(*binding) for binding in bound]

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        self._make_folders()
        super()._queue_bind(exchange, routing_key, pattern, queue)

    def _put(  # type: ignore[override]  # kombu's own classes name the argument differently
        self, queue: str, payload: Any, **kwargs: Any
    ) -> None:
        name = f"{round(monotonic() * 1000)}_{uuid4()}.{queue}.msg"
        folder = Path(self.data_folder_out)
        pending = folder / f".{name}.pending"
        try:
            self._make_folders()
            pending.write_text(dumps(payload))
            os.replace(pending, folder / name)
        except OSError as error:
            raise ChannelError(f"Cannot add file {name!r} to directory") from error

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        self._make_folders()
        return super()._get(queue)

    def _size(self, queue: str) -> int:
        self._make_folders()
        return super()._size(queue)

    def _purge(self, queue: str) -> int:
        self._make_folders()
        return super()._purge(queue)

    def _make_folders(self) -> None:
        for folder in (self.data_folder_in, self.data_folder_out, self.control_folder):
            Path(folder).mkdir(parents=True, exist_ok=True)


class Transport(filesystem.Transport):
    Channel = Channel


def use_whole_messages() -> None:
    """Register this transport as ``filesystem://`` in this process."""
    TRANSPORT_ALIASES["filesystem"] = f"{__name__}:Transport"


# Intervals of the scheduler.


class SteadySchedule(schedule):
    """Interval that continues if the clock is set back; Celery's stops until the clock passes its last run again."""

    def is_due(self, last_run_at: datetime) -> tuple[bool, float]:
        """Return True if the task is due, and the seconds until the next check."""
        now = self.maybe_make_aware(self.now())
        return super().is_due(min(self.maybe_make_aware(last_run_at), now))
