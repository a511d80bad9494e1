"""Worker's attempt at an execution, with the dying runner.

``python dying_worker.py EXECUTION`` marks earlier attempts as lost, resumes the execution as the user who
requested it, performs it on real Spark, and prints its result. A killed worker leaves its rows unchanged.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "elevata.settings")

import django

RUNNER = Path(__file__).with_name("dying_runner.py")


def main(execution_pk: int) -> None:
    django.setup()
    from architecture.models import Execution
    from architecture.services.executions import resume_execution
    from elevata.core.processes import process_name
    from elevata.jobs import states
    from elevata.jobs.services import mark_lost
    from loader.runner.supervisor import Patience, Runner
    from loader.services.executions import perform_execution

    name = process_name()
    command = [sys.executable, str(RUNNER), os.environ["ELEVATA_TEST_DEATH"]]
    runner = Runner(holder=f"worker {name}", command=command, patience=Patience(start=600))
    runner.start()
    mark_lost(job_pk=execution_pk)
    execution = Execution.objects.get(pk=execution_pk)
    if execution.status in states.RESTARTABLE:
        resume_execution(execution=execution, user=execution.requested_by)
    try:
        done = perform_execution(execution_pk, worker=name, runner=runner)
        print(done.status if done is not None else "not claimed")
    finally:
        runner.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
