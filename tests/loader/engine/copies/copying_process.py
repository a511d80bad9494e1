"""Process that performs one copy run, for tests that kill it. It prints a line for each phase, and ``ended``."""

import pickle
import sys
import threading
from typing import Any

from loader.contract.run_states import COPY
from loader.engine.maintenance.maintenance_runs import perform_run
from loader.engine.session import start_session


def main() -> None:
    """Read the runner's configuration and the manifest from standard input, and copy."""
    config, manifest = pickle.load(sys.stdin.buffer)
    session = start_session(config)
    result = perform_run(session, config.warehouse, COPY, manifest, _emit, threading.Event(), "copy")
    print(f"ended {result['status']}", flush=True)


def _emit(event: str, **fields: Any) -> None:
    if event == "dataset_phase":
        print(fields["phase"], flush=True)


if __name__ == "__main__":
    main()
