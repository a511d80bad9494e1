"""Command that serves the Fivetran destination until it is stopped."""

import signal
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import ProductCommand
from loader.domain.extras import packages_of


class Command(ProductCommand):
    help = (
        "Serve the Fivetran destination (gRPC) until SIGTERM or Ctrl-C. Writes are load runs of a worker, which must "
        "run beside it. Another address than a loopback address needs TLS."
    )
    takes_user = False
    with_json = False

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="where the service listens; default: 127.0.0.1")
        parser.add_argument("--port", type=int, default=50052, help="default: 50052")
        parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate chain, PEM")
        parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key, PEM")

    def run(self, *, host: str, port: int, tls_cert: Path | None, tls_key: Path | None, **_: Any) -> None:
        with packages_of("fivetran"):
            from loader.fivetran.server import Listener, serving
        stop = threading.Event()
        listener = Listener(host, port, tls_cert, tls_key)
        previous = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            with serving(listener) as bound:
                encrypted = "with TLS" if tls_cert else "without TLS"
                self.say(f"the Fivetran destination is at {host}:{bound}, {encrypted} - Ctrl-C stops it")
                stop.wait()
                self.say("stopping")
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
