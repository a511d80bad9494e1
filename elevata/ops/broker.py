"""The embedded broker: kombu's folder of messages, with messages that are there whole or not at all.

kombu writes a message under the name by which it is found, so a worker that looks in between takes an
empty one, and its consumer ends with what it cannot read. It also takes its folders for granted: without
them a worker ends, and what is sent reaches no queue.
"""

import os
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from kombu.exceptions import ChannelError
from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """A channel that makes its folders anew when somebody has removed them."""

    def get_table(self, exchange: str) -> list[filesystem.exchange_queue_t]:
        """Return the queues bound to an exchange: as the folder says, or as this process bound them."""
        bound = self.state.exchanges.get(exchange, {}).get("table", [])
        return super().get_table(exchange) or [filesystem.exchange_queue_t(*binding) for binding in bound]

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        self._make_folders()
        super()._queue_bind(exchange, routing_key, pattern, queue)

    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:
        name = f"{round(monotonic() * 1000)}_{uuid4()}.{queue}.msg"
        folder = Path(self.data_folder_out)
        pending = folder / f".{name}.pending"
        try:
            self._make_folders()
            pending.write_text(dumps(payload))
            os.replace(pending, folder / name)
        except OSError as error:
            raise ChannelError(f"Cannot add file {name!r} to directory") from error

    def _get(self, queue: str) -> Any:
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
    """Have ``filesystem://`` mean this transport, in this process."""
    TRANSPORT_ALIASES["filesystem"] = f"{__name__}:Transport"
