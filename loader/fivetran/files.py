"""Batch files of Fivetran, decrypted and unpacked in a stream.

A file is one AES-256-CBC stream with PKCS#7 padding, whose first 16 bytes are the initialization vector, around CSV
packed with zstd or gzip. Files are read only below the permitted locations of sources.

==================  ==================================================================================
OUTSIDE_ROOTS       the path, or the file that it links to, is not below ELEVATA_SOURCE_ROOTS
MISSING_FILE        there is no such file
NO_KEY, BAD_KEY     the request has no key for the file, or one that has not 32 bytes
WRONG_KEY           the file cannot be decrypted with its key
TRUNCATED_FILE      the file ends early
UNREADABLE_FILE     the file is not packed as the request says
TOO_LARGE_UNPACKED  the files of a request become larger than ELEVATA_BATCH_MAX_UNPACKED_MB together
==================  ==================================================================================
"""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7
from django.conf import settings

from loader.contract.refusals import Refusal
from loader.services.sources.specs import source_roots
from metadata.domain.sources.locations import OutsideRoots

BLOCK, KEY_BYTES = 16, 32
_CHUNK = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_AGAIN = "Sync again; Fivetran sends the file anew."


@dataclass
class Budget:
    """Remaining unpacked bytes of one request."""

    left: int

    @classmethod
    def of_settings(cls) -> "Budget":
        return cls(settings.BATCH_MAX_UNPACKED_BYTES)


@dataclass(frozen=True)
class PackedFile:
    """File of a request. ``key`` is None for a file that is not encrypted; ``compression`` is none, zstd or gzip."""

    path: str
    key: bytes | None = None
    compression: str = "none"

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    def chunks(self, budget: Budget) -> Iterator[bytes]:
        """Yield the content in pieces of at most one megabyte. Raise Refusal."""
        written = 0
        with ExitStack() as streams:
            stream: Any = streams.enter_context(open_permitted(self.path))  # Any: files of Python and of Arrow
            if self.key is not None:
                stream = streams.enter_context(io.BufferedReader(_Decrypted(stream, self.key, self.name), _CHUNK))
            try:
                if self.compression != "none":
                    source = streams.enter_context(pa.PythonFile(stream, mode="r"))
                    stream = streams.enter_context(pa.CompressedInputStream(source, self.compression))
                while chunk := stream.read(_CHUNK):
                    written += len(chunk)
                    budget.left -= len(chunk)
                    if budget.left < 0:
                        limit = settings.BATCH_MAX_UNPACKED_BYTES
                        message = f"the files become larger than {limit:,} bytes, with {self.name}"
                        raise Refusal("TOO_LARGE_UNPACKED", message, file=self.name)
                    yield chunk
            except (OSError, pa.ArrowException) as error:
                raise self._unreadable(error, is_begin=not written) from error

    def _unreadable(self, error: Exception, *, is_begin: bool) -> Refusal:
        if "runcated" in str(error):
            return Refusal(
                "TRUNCATED_FILE", f"{self.name} ends in the middle of its stream", file=self.name, hint=_AGAIN
            )
        if is_begin and self.key is not None:
            message = f"{self.name} is not packed with {self.compression}, or its key is that of another file"
            return Refusal("WRONG_KEY", message, file=self.name, hint=_AGAIN)
        message = f"{self.name} is damaged, or not packed with {self.compression}"
        return Refusal("UNREADABLE_FILE", message, file=self.name, hint=_AGAIN)


def open_permitted(path: str) -> BinaryIO:
    """Open a file below the permitted locations of sources. Raise Refusal OUTSIDE_ROOTS or MISSING_FILE.

    The opened file is checked, not only the path, so that links exchanged meanwhile have no effect.
    """
    name = os.path.basename(path)
    roots = source_roots()
    try:
        with ExitStack() as unless_permitted:
            roots.check_file(path)
            stream = unless_permitted.enter_context(os.fdopen(os.open(path, _FLAGS), "rb", buffering=0))
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise FileNotFoundError(path)
            roots.check_file(os.readlink(f"/proc/self/fd/{stream.fileno()}"))
            unless_permitted.pop_all()
    except OutsideRoots as error:
        raise Refusal(
            "OUTSIDE_ROOTS",
            f"{name} is not below the permitted locations of sources",
            file=name,
            hint="Add the folder of Fivetran's batch files to ELEVATA_SOURCE_ROOTS.",
        ) from error
    except (OSError, ValueError) as error:
        raise Refusal("MISSING_FILE", f"{name} is no file that can be read", file=name, hint=_AGAIN) from error
    return stream


class _Decrypted(io.RawIOBase):
    """Plain content of an encrypted stream."""

    def __init__(self, stream: BinaryIO, key: bytes, name: str):
        if len(key) != KEY_BYTES:
            raise Refusal("BAD_KEY", f"the key of {name} has {len(key)} bytes instead of {KEY_BYTES}", file=name)
        self._name, self._stream = name, stream
        size = os.fstat(stream.fileno()).st_size
        if size < 2 * BLOCK or size % BLOCK:
            raise Refusal("TRUNCATED_FILE", f"{name} is incomplete: it has {size} bytes", file=name, hint=_AGAIN)
        self._cipher = Cipher(AES256(key), CBC(stream.read(BLOCK))).decryptor()
        self._padding = PKCS7(BLOCK * 8).unpadder()
        self._rest, self._is_end = b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self._rest and not self._is_end:
            packed = self._stream.read(_CHUNK)
            plain = self._padding.update(self._cipher.update(packed))
            if not packed:
                self._is_end = True
                plain += self._last()
            self._rest = plain
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)

    def _last(self) -> bytes:
        try:
            return self._padding.update(self._cipher.finalize()) + self._padding.finalize()
        except ValueError:
            raise Refusal(
                "WRONG_KEY",
                f"{self._name} cannot be decrypted: its key is that of another file, or the file ends early",
                file=self._name,
                hint=_AGAIN,
            ) from None
