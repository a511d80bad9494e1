"""Methods of the protocol: read a request, call a service as the sender, answer with its result.

A refusal becomes a task, which stops the sync and tells its message on Fivetran's dashboard. What may succeed later
ends with the gRPC status UNAVAILABLE, after which Fivetran sends the same again.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from functools import wraps
from typing import Any

import grpc
from django.conf import settings
from django.db import InterfaceError, OperationalError, connections

from architecture.permissions import must_be_permitted
from elevata.accounts.actors import acting_as, current_actor
from elevata.accounts.roles import Permission
from elevata.accounts.services.tokens import authenticate_token
from elevata.core.errors import MetadataError, ProductError
from elevata.jobs.registry import live_workers
from elevata.jobs.waiting import NoWorker
from loader.contract.refusals import Refusal
from loader.domain.fivetran import Column, Table
from loader.domain.reference.batch_files import DELETE, EARLIEST, UPDATE, UPSERT
from loader.fivetran import metadata_rows, migrations, pending_changes, tables, writes
from loader.fivetran.files import PackedFile
from loader.fivetran.protocol import messages, services
from metadata.permissions import here

log = logging.getLogger(__name__)

FIELD = "token"
TESTS = {"permission": "Checking the token and its permissions", "worker": "Looking for a running worker"}
_COMPRESSIONS = {"OFF": "none", "ZSTD": "zstd", "GZIP": "gzip"}


class Denied(Exception):
    """Error raised for a sender without a valid token or without permission."""

    def __init__(self, status: grpc.StatusCode, error: ProductError) -> None:
        super().__init__(error.one_line())
        self.status = status


def answering(kind: Any) -> Callable[[Callable], Callable]:
    """Return a decorator for a method that runs as the sender and returns a message, or None for success."""

    def decorate(method: Callable) -> Callable:
        @wraps(method)
        def answer(self, request: Any, context: grpc.ServicerContext) -> Any:
            try:
                with _as_sender(request, context):
                    return method(self, request) or kind(success=True)
            except Exception as error:
                status, message = _outcome(error)
            finally:
                connections.close_all()
            if status is None or kind is messages.TestResponse:
                return _task(kind, message)
            context.abort(status, message)

        return answer

    return decorate


def _outcome(error: Exception) -> tuple[grpc.StatusCode | None, str]:
    """Return status and message of an error; no status for one that becomes a task."""
    match error:
        case Denied():
            return error.status, str(error)
        case NoWorker():
            return grpc.StatusCode.UNAVAILABLE, error.one_line()
        case writes.Interrupted():
            return grpc.StatusCode.UNAVAILABLE, str(error)
        case ProductError():
            return None, error.one_line()
        case OperationalError() | InterfaceError():
            log.error("the control database does not answer", exc_info=error)
            return grpc.StatusCode.UNAVAILABLE, "the control database does not answer"
    log.error("a request failed", exc_info=error)
    return grpc.StatusCode.INTERNAL, "an error of the program; the log of the service has it"


@contextmanager
def _as_sender(request: Any, context: grpc.ServicerContext) -> Iterator[None]:
    """Act as the user of the request's token, who must have the permission to start loads. Raise Denied."""
    try:
        token = authenticate_token(_token(request, context))
    except MetadataError as error:
        raise Denied(grpc.StatusCode.UNAUTHENTICATED, error) from error
    request_id = f"fivetran-{uuid.uuid4().hex}"
    with acting_as(token.user, by_token=True, request_id=request_id, read_only=token.is_read_only):
        try:
            must_be_permitted(token.user, Permission.START_LOAD, on=here)
        except ProductError as error:
            raise Denied(grpc.StatusCode.PERMISSION_DENIED, error) from error
        yield


def _token(request: Any, context: grpc.ServicerContext) -> str:
    """Return the token of the request's header ``authorization: Bearer …``, else of its configuration."""
    header = str(dict(context.invocation_metadata()).get("authorization", ""))
    scheme, _, text = header.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else request.configuration.get(FIELD, "").strip()


def _task(kind: Any, message: str) -> Any:
    return kind(failure=message) if kind is messages.TestResponse else kind(task=messages.Text(message=message))


_Servicer: Any = services.DestinationConnectorServicer


class Destination(_Servicer):
    """Service of the destination. Runs under way are cancelled when ``stopping`` is set."""

    def __init__(self, stopping: threading.Event):
        self._stopping = stopping

    def ConfigurationForm(self, request: Any, context: grpc.ServicerContext) -> Any:
        field = messages.FormField(
            name=FIELD,
            label="Token",
            required=True,
            description=f"Personal token of a user or service account of elevata ({settings.ENVIRONMENT}) that may "
            "change metadata and start loads.",
            text_field=messages.Password,
        )
        tests = [messages.FormTest(name=name, label=label) for name, label in TESTS.items()]
        return messages.FormResponse(
            schema_selection_supported=True, table_selection_supported=True, fields=[field], tests=tests
        )

    def Capabilities(self, request: Any, context: grpc.ServicerContext) -> Any:
        return messages.CapabilitiesResponse(batch_file_format=messages.CSV)

    @answering(messages.TestResponse)
    def Test(self, request: Any) -> None:
        if request.name not in TESTS:
            raise Refusal("UNKNOWN_TEST", f"there is no test {request.name}")
        if request.name == "permission":
            must_be_permitted(current_actor().user, Permission.CHANGE_METADATA)
        if request.name == "worker" and not live_workers():
            raise Refusal("NO_WORKER", NoWorker().one_line())

    @answering(messages.DescribeResponse)
    def DescribeTable(self, request: Any) -> Any:
        source = tables.known_table(request.schema_name, request.table_name)
        if source is None:
            return messages.DescribeResponse(not_found=True)
        table = tables.described_table(source)
        columns = [_as_message(column) for column in table.columns]
        return messages.DescribeResponse(table=messages.Table(name=table.name, columns=columns))

    @answering(messages.Answer)
    def CreateTable(self, request: Any) -> None:
        pending_changes.refuse_waiting(tables.create_table(_table(request)))

    @answering(messages.Answer)
    def AlterTable(self, request: Any) -> None:
        pending_changes.refuse_waiting(tables.alter_table(_table(request), drops=request.drop_columns))

    @answering(messages.Answer)
    def Truncate(self, request: Any) -> None:
        writes.truncate(
            request.schema_name,
            request.table_name,
            synced_column=request.synced_column,
            before=request.utc_delete_before.ToDatetime(UTC),
            deleted_column=request.soft.deleted_column if request.HasField("soft") else "",
            stopping=self._stopping,
        )

    @answering(messages.Answer)
    def WriteBatch(self, request: Any) -> None:
        self._write(request, in_history_mode=False)

    @answering(messages.Answer)
    def WriteHistoryBatch(self, request: Any) -> None:
        self._write(request, in_history_mode=True)

    @answering(messages.MigrateAnswer)
    def Migrate(self, request: Any) -> Any:
        is_supported = migrations.migrate(request.details, self._stopping)
        return None if is_supported else messages.MigrateAnswer(unsupported=True)

    def _write(self, request: Any, *, in_history_mode: bool) -> None:
        # The files may be anywhere below the permitted locations of sources, which only editors may read.
        must_be_permitted(current_actor().user, Permission.CHANGE_METADATA)
        source = tables.wanted_table(request.schema_name, request.table.name)
        if metadata_rows.in_history_mode(source) != in_history_mode:
            raise Refusal(
                "WRONG_MODE",
                f"{source} is {'not ' if in_history_mode else ''}in history mode",
                hint="Sync it again from the beginning, so that Fivetran alters the table first.",
            )
        kinds = [(EARLIEST, request.earliest_start_files)] if in_history_mode else []
        kinds += [(UPSERT, request.replace_files), (UPDATE, request.update_files), (DELETE, request.delete_files)]
        parameters = request.file_params
        writes.write_files(
            source,
            [(kind, _packed(request, path)) for kind, paths in kinds for path in paths],
            null_string=parameters.null_string,
            unmodified_string=parameters.unmodified_string,
            stopping=self._stopping,
        )


def _packed(request: Any, path: str) -> PackedFile:
    parameters, key = request.file_params, None
    if parameters.encryption == messages.AES:
        key = request.keys.get(path)
        if key is None:
            raise Refusal("NO_KEY", f"the request has no key for {path.rpartition('/')[2]}")
    compression = messages.Compression.Name(parameters.compression)
    return PackedFile(path, key, _COMPRESSIONS[compression])


def _table(request: Any) -> Table:
    columns = tuple(map(read_column, request.table.columns))
    return Table(request.schema_name, request.table.name, columns)


def read_column(sent: Any) -> Column:
    """Return a column of a request."""
    decimal = sent.params.decimal if sent.HasField("params") and sent.params.HasField("decimal") else None
    return Column(
        sent.name,
        messages.DataType.Name(sent.type),
        sent.primary_key,
        decimal.precision if decimal else None,
        decimal.scale if decimal else None,
    )


def _as_message(column: Column) -> Any:
    message = messages.Column(
        name=column.name, type=messages.DataType.Value(column.type), primary_key=column.primary_key
    )
    if column.precision is not None:
        decimal = messages.DecimalParameters(precision=column.precision, scale=column.scale)
        message.params.CopyFrom(messages.TypeParameters(decimal=decimal))
    return message
