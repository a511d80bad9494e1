"""The gRPC server: address, encryption, start and stop."""

import ipaddress
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from loader.contract.refusals import Refusal
from loader.fivetran.protocol import services
from loader.fivetran.servicer import Destination
from loader.services.uploads import sweep_uploads

THREADS = 16
STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Listener:
    """Address of the server; ``certificate`` and ``private_key`` are PEM files for TLS."""

    host: str
    port: int
    certificate: Path | None = None
    private_key: Path | None = None

    def check(self) -> None:
        """Raise Refusal TLS_NEEDED for an address that others reach without TLS, BAD_OPTION for one file of two."""
        if (self.certificate is None) != (self.private_key is None):
            raise Refusal("BAD_OPTION", "TLS needs a certificate and a key", hint="give --tls-cert and --tls-key")
        if self.certificate is None and not _is_loopback(self.host):
            raise Refusal(
                "TLS_NEEDED",
                f"{self.host} is not a loopback address, and without TLS tokens and keys would be readable",
                hint="give --tls-cert and --tls-key, or listen at 127.0.0.1",
            )

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def credentials(self) -> grpc.ServerCredentials | None:
        """Return the credentials of TLS, None without it. Raise Refusal BAD_OPTION for files that cannot be read."""
        if self.certificate is None or self.private_key is None:
            return None
        try:
            pair = (self.private_key.read_bytes(), self.certificate.read_bytes())
        except OSError as error:
            raise Refusal("BAD_OPTION", f"{error.filename} cannot be read: {error.strerror}") from None
        return grpc.ssl_server_credentials([pair])


@contextmanager
def serving(listener: Listener) -> Iterator[int]:
    """Serve inside the block; yield the port. At the end, cancel runs under way and wait for their answers."""
    listener.check()
    credentials, stopping = listener.credentials(), threading.Event()
    sweep_uploads()  # plain files of a service that was killed
    threads = ThreadPoolExecutor(THREADS, "fivetran")
    server = grpc.server(threads, options=[("grpc.so_reuseport", 0)])
    services.add_DestinationConnectorServicer_to_server(Destination(stopping), server)
    try:
        port = (
            server.add_secure_port(listener.address, credentials)
            if credentials
            else server.add_insecure_port(listener.address)
        )
    except RuntimeError as error:
        raise Refusal("PORT_BUSY", f"cannot listen at {listener.address}", hint="choose another --port") from error
    server.start()
    try:
        yield port
    finally:
        stopping.set()
        server.stop(STOP_SECONDS).wait()
        threads.shutdown()  # calls that their senders gave up, too


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
