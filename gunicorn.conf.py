"""What gunicorn does for the product whenever it is started in its folder; options on the command line win."""

import os
import shutil
import tempfile

from elevata.core.data_folder import UMASK
from elevata.core.garbage_collection import collect_less, keep_what_is_loaded
from elevata.ops.logging import logging_settings

# A socket that is bound to a path is made by gunicorn's own ``umask``, so that a proxy reaches it.
os.umask(UMASK)

# Longer than LONGEST_ADDRESS: what is too long for the product is refused by the product. What is too long for
# gunicorn, too, gets gunicorn's own answer.
limit_request_line = 8190

# Requests are counted in every process; any of them tells the sum, from this folder.
_made = None
if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
    _made = os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="elevata-metrics-")
_maker = os.getpid()

logconfig_dict = logging_settings(
    os.environ.get("ELEVATA_LOG_FORMAT") or "plain", os.environ.get("ELEVATA_LOG_LEVEL") or "WARNING"
)


def on_starting(server):
    """Leave half of a process's threads to requests that end: a stream of events holds its thread for minutes."""
    wanted, most = int(os.environ.get("ELEVATA_API_STREAMS") or 2), server.cfg.threads // 2
    if wanted > most:
        server.log.warning("ELEVATA_API_STREAMS is %s; with %s threads it is %s", wanted, server.cfg.threads, most)
        os.environ["ELEVATA_API_STREAMS"] = str(most)


def post_worker_init(worker):
    """A process that has begun leaves what it loaded alone."""
    collect_less()
    keep_what_is_loaded()


def child_exit(server, worker):
    """Let go of what a process that ended held for itself; what it counted stays."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(worker.pid)


def on_exit(server):
    """Take the folder away that was made above."""
    if _made is not None and os.getpid() == _maker:
        shutil.rmtree(_made, ignore_errors=True)
