"""Time limit of reads, whose jobs are cancelled when it ends."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from loader.contract.refusals import Refusal


@contextmanager
def in_time(spark: SparkSession, job_group: str, what: str, seconds: float) -> Iterator[None]:
    """Run jobs in the scheduler pool of reads; cancel them and raise ``READ_TIMEOUT`` after ``seconds``."""
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", "read")
    context.setJobGroup(job_group, what)
    late = threading.Event()

    def give_up() -> None:
        late.set()
        context.cancelJobGroup(job_group)

    timer = threading.Timer(seconds, give_up)
    timer.start()
    try:
        yield
    except Exception:
        if late.is_set():
            raise Refusal(
                "READ_TIMEOUT",
                f"The read took longer than {seconds:.0f} seconds",
                hint="Read less, or try again when no load is running.",
            ) from None
        raise
    finally:
        timer.cancel()
