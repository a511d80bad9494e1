"""Reader of a child process's output: a log record is a line with a head, and the lines after it without one."""

import logging
import os
import select
import threading
from collections.abc import Callable, Iterator

from elevata.core.words import counted
from loader.contract.protocol import Said, heard

log = logging.getLogger(__name__)


# Seconds without a further line after which a record is passed on; else it is passed on when the next one begins.
_QUIET = 0.3
_CHUNK = 65_536
_LONGEST_LINE = 256 * 1024
_MOST_LINES = 1000
_LONGEST_RECORD = 256 * 1024


class ChildOutput:
    """Reader of a descriptor, in a thread of its own that calls ``on_said`` for each log record."""

    def __init__(self, descriptor: int, on_said: Callable[[Said], None]):
        self._descriptor, self._on_said = descriptor, on_said
        self._open: Said | None = None
        self._more = self._left_out = 0
        self._thread = threading.Thread(target=self._read, name="runner-output", daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until all output was passed on, for at most the given seconds."""
        self._thread.join(seconds)

    def _read(self) -> None:
        lines = Lines()
        try:
            while True:
                if self._open is not None and not select.select([self._descriptor], [], [], _QUIET)[0]:
                    self._tell()
                chunk = os.read(self._descriptor, _CHUNK)
                for line in lines.of(chunk):
                    self._take(line)
                if not chunk:
                    break
        finally:
            self._tell()
            os.close(self._descriptor)

    def _take(self, line: str) -> None:
        head = heard(line)
        if head is None and self._open is not None and self._more < _MOST_LINES:
            if len(self._open.message) + len(line) > _LONGEST_RECORD:
                self._left_out += 1
            else:
                self._open = self._open.followed_by(line)
            self._more += 1
            return
        self._tell()
        if head is not None or line.strip():
            self._open = head or Said(line)

    def _tell(self) -> None:
        record, left_out, self._open, self._more, self._left_out = self._open, self._left_out, None, 0, 0
        if record is None:
            return
        try:
            self._on_said(record.followed_by(f"[{counted(left_out, 'line')} left out]") if left_out else record)
        except Exception:  # a child blocks if its pipe is not read
            log.exception("output of the runner could not be logged")


class Lines:
    """Splitter of bytes into lines of text. Too long lines are left out, since a cut line could end within a secret."""

    def __init__(self) -> None:
        self._rest, self._left_out = b"", 0

    def of(self, chunk: bytes) -> Iterator[str]:
        """Yield the lines that ``chunk`` completes; an empty chunk ends the last line."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk and (self._rest or self._left_out):
            whole, self._rest = [self._rest], b""
        for line in whole:
            yield self._text(line)
        if len(self._rest) > _LONGEST_LINE:
            self._left_out, self._rest = self._left_out + len(self._rest), b""

    def _text(self, line: bytes) -> str:
        length, self._left_out = self._left_out + len(line), 0
        if length > _LONGEST_LINE:
            return f"[a line of {length} bytes is left out]"
        return line.decode("utf-8", "replace").rstrip("\r")
