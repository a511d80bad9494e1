"""Settings of gunicorn, which reads them when it is started in this folder; command-line options override them."""

import os
import shutil
import tempfile

from elevata.core.data_folder import UMASK
from elevata.core.garbage_collection import collect_less, keep_what_is_loaded
from elevata.ops.logging import logging_settings

# A socket that is bound to a path is made by gunicorn's own ``umask``, so that a proxy reaches it.
os.umask(UMASK)

# Longer than LONGEST_ADDRESS, so that the product itself refuses addresses above its limit. gunicorn answers only
# those above this limit.
limit_request_line = 8190

# Every process writes its counts of requests into this folder; each of them can return the sum.
_made = None
if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
    _made = os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="elevata-metrics-")
_maker = os.getpid()

logconfig_dict = logging_settings(
    os.environ.get("ELEVATA_LOG_FORMAT") or "plain", os.environ.get("ELEVATA_LOG_LEVEL") or "WARNING"
)


def on_starting(server):
    """Reserve half of a process's threads for short requests: an event stream occupies its thread for minutes."""
    wanted, most = int(os.environ.get("ELEVATA_API_STREAMS") or 2), server.cfg.threads // 2
    if wanted > most:
        server.log.warning("ELEVATA_API_STREAMS is %s; with %s threads it is %s", wanted, server.cfg.threads, most)
        os.environ["ELEVATA_API_STREAMS"] = str(most)


def post_worker_init(worker):
    """Exclude the loaded modules from garbage collection when a worker process has started."""
    collect_less()
    keep_what_is_loaded()


def child_exit(server, worker):
    """Remove the live gauges of an ended process, and keep its counters."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(worker.pid)


def on_exit(server):
    """Remove the folder of the counters."""
    if _made is not None and os.getpid() == _maker:
        shutil.rmtree(_made, ignore_errors=True)
