"""Runner of commands that run cases: in a temporary folder, without the installation's tables."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings

from elevata.core.processes import process_name
from loader.contract.refusals import Refusal
from loader.runner.supervisor import Runner, runner_config

_POLL_SECONDS = 1.0


@contextmanager
def temporary_runner(command: str) -> Iterator[Runner]:
    """Yield a runner on a folder that is deleted afterwards. The folder is visible to a cluster's workers, too."""
    Path(settings.DATA_DIR).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{command}-", dir=settings.DATA_DIR))
    config = runner_config() | {"warehouse": str(folder / "warehouse")}
    runner = Runner(holder=f"manage.py {command}, {process_name()}", config=config, folder=folder)
    try:
        runner.start()
        yield runner
    finally:
        runner.close()
        shutil.rmtree(folder, ignore_errors=True)


def run_cases(runner: Runner, kind: str, manifest: Any, tell: Callable[[dict], None]) -> None:
    """Call ``tell`` with the outcome of each case of a request. Raise Refusal if the request fails."""
    exchange = runner.request(kind, manifest)
    while True:
        event = exchange.next(timeout=_POLL_SECONDS)
        if event is None:
            continue
        if event["event"] == "finished":
            if event["status"] != "succeeded":
                raise Refusal.from_json(event["error"])
            return
        tell(event["outcome"])
