"""The embedded broker: kombu's folder of messages, with messages that are there whole or not at all.

kombu writes a message under the name by which it is found, so a worker that looks in between takes an
empty one, and its consumer ends with what it cannot read.
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
    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:
        name = f"{round(monotonic() * 1000)}_{uuid4()}.{queue}.msg"
        folder = Path(self.data_folder_out)
        pending = folder / f".{name}.pending"
        try:
            pending.write_text(dumps(payload))
            os.replace(pending, folder / name)
        except OSError as error:
            raise ChannelError(f"Cannot add file {name!r} to directory") from error


class Transport(filesystem.Transport):
    Channel = Channel


def use_whole_messages() -> None:
    """Have ``filesystem://`` mean this transport, in this process."""
    TRANSPORT_ALIASES["filesystem"] = f"{__name__}:Transport"
