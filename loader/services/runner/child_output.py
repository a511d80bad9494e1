"""Reader of a child process's output: a log record is a head and the lines that follow it."""

import logging
import os
import select
import threading
from collections.abc import Callable, Iterator

from loader.domain.runs.log_lines import Said, heard

log = logging.getLogger(__name__)

# A record is passed on when the next one begins, or after so many seconds without a further line.
_QUIET = 0.3
_CHUNK = 65_536
_LONGEST_LINE = 256 * 1024
_MOST_LINES = 1000


class ChildOutput:
    """Reader of a descriptor, to its end, in a thread of its own; ``on_said`` is called from there."""

    def __init__(self, descriptor: int, on_said: Callable[[Said], None]):
        self._descriptor, self._on_said = descriptor, on_said
        self._open: Said | None = None
        self._more = 0
        self._thread = threading.Thread(target=self._read, name="runner-output", daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until all output was passed on, for at most so many seconds."""
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
            self._open, self._more = self._open.followed_by(line), self._more + 1
            return
        self._tell()
        if head is not None or line.strip():
            self._open = head or Said(line)

    def _tell(self) -> None:
        said, self._open, self._more = self._open, None, 0
        if said is None:
            return
        try:
            self._on_said(said)
        except Exception:  # a child blocks if its pipe is not read
            log.exception("what the runner printed could not be written down")


class Lines:
    """Splitter of bytes into lines of text. A line that is too long is left out: cut, it could end within a secret."""

    def __init__(self) -> None:
        self._rest, self._left_out = b"", 0

    def of(self, chunk: bytes) -> Iterator[str]:
        """Yield the lines that are complete now; with no bytes at all, also the last one, without its end."""
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
