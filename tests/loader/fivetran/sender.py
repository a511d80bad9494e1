"""Sender that speaks the protocol as Fivetran does: packed and encrypted files, requests with a configuration."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from loader.fivetran.protocol import messages, services
from tests.loader.installation import Installation

NULL, SAME = "null-m8yilkvPsNulehxl2G6pmSQ3G3WWdLP", "unmod-NcK9NIjPUutCsz4mjOQQztbnwnE1sY3"


def encrypted(content: bytes, key: bytes, codec: str | None = "zstd") -> bytes:
    """Return content packed, and encrypted behind its initialization vector."""
    packed = pa.compress(content, codec=codec, asbytes=True) if codec else content
    padding = PKCS7(128).padder()
    vector = os.urandom(16)
    cipher = Cipher(AES256(key), CBC(vector)).encryptor()
    return vector + cipher.update(padding.update(packed) + padding.finalize()) + cipher.finalize()


def table(name: str, key: Iterable[str], /, **columns: Any) -> Any:
    """Return a table message; a column is a type, or (DECIMAL, precision, scale)."""
    key = set(key)
    return messages.Table(
        name=name, columns=[_column(column, type_, column in key) for column, type_ in columns.items()]
    )


def _column(name: str, type_: Any, primary_key: bool) -> Any:
    type_, *decimal = type_ if isinstance(type_, tuple) else (type_,)
    column = messages.Column(name=name, type=messages.DataType.Value(type_), primary_key=primary_key)
    if decimal:
        column.params.decimal.precision, column.params.decimal.scale = decimal
    return column


@dataclass
class Sender:
    """Sender with a token, whose files are in ``folder``."""

    channel: grpc.Channel
    folder: Path
    token: str = ""
    schema: str = "shop"
    made: int = 0
    keys: dict[str, bytes] = field(default_factory=dict)

    def call(self, method: str, request: Any, **options: Any) -> Any:
        return getattr(services.DestinationConnectorStub(self.channel), method)(request, **options)

    def file(self, *lines: str, codec: str | None = "zstd") -> str:
        """Write an encrypted file of these lines; its key is sent with the next batch."""
        self.made += 1
        path, key = self.folder / f"batch-{self.made}.csv", os.urandom(32)
        path.write_bytes(encrypted(("\n".join(lines) + "\n").encode(), key, codec))
        self.keys[str(path)] = key
        return str(path)

    @property
    def _common(self) -> dict[str, Any]:
        return {"configuration": {"token": self.token}, "schema_name": self.schema}

    def test(self, name: str) -> Any:
        return self.call("Test", messages.TestRequest(name=name, configuration={"token": self.token}))

    def describe(self, name: str) -> Any:
        return self.call("DescribeTable", messages.DescribeRequest(table_name=name, **self._common))

    def create(self, sent: Any) -> Any:
        return self.call("CreateTable", messages.CreateRequest(table=sent, **self._common))

    def alter(self, sent: Any, *, drops: bool = False) -> Any:
        return self.call("AlterTable", messages.AlterRequest(table=sent, drop_columns=drops, **self._common))

    def truncate(self, name: str, before: Any, deleted_column: str = "") -> Any:
        request = messages.TruncateRequest(table_name=name, synced_column="_fivetran_synced", **self._common)
        request.utc_delete_before.FromDatetime(before)
        if deleted_column:
            request.soft.deleted_column = deleted_column
        return self.call("Truncate", request)

    def write(self, name: str, **files: list[str]) -> Any:
        return self._write("WriteBatch", messages.BatchRequest, name, files)

    def write_history(self, name: str, **files: list[str]) -> Any:
        return self._write("WriteHistoryBatch", messages.HistoryBatchRequest, name, files)

    def _write(self, method: str, kind: Any, name: str, files: dict[str, list[str]]) -> Any:
        request = kind(table=messages.Table(name=name), keys=self.keys, **self._common)
        for field_name, paths in files.items():
            getattr(request, f"{field_name}_files").extend(paths)
        request.file_params.encryption, request.file_params.compression = messages.AES, messages.ZSTD
        request.file_params.null_string, request.file_params.unmodified_string = NULL, SAME
        return self.call(method, request)

    def migrate(self, name: str, **operation: Any) -> Any:
        details = messages.Migration(schema=self.schema, table=name, **operation)
        configuration = {"token": self.token}
        return self.call("Migrate", messages.MigrateRequest(configuration=configuration, details=details))


@contextmanager
def fivetran_service(installation: Installation) -> Iterator[str]:
    """Run the service of an installation in a process until SIGTERM; yield its address."""
    process = installation.start("serve_fivetran", "--port", "0")
    line = process.stdout.readline()
    try:
        yield "127.0.0.1:" + line.split("127.0.0.1:")[1].split(",")[0]
    finally:
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "stopping\n", "")


@contextmanager
def served_sender(installation: Installation) -> Iterator[Sender]:
    """Yield a sender to the service of an installation, for a new user who may edit metadata and start loads."""
    roles = ("--role", "operator", "--role", "editor")
    token = installation.json("create_user", "fay", *roles, "--token")["token"]
    landing = installation.folder / "landing"
    landing.mkdir(exist_ok=True)
    with fivetran_service(installation) as address, grpc.insecure_channel(address) as channel:
        yield Sender(channel, landing, token)
