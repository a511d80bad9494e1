"""Worker on real Spark whose runner dies at a configured event; it works until its input ends.

ELEVATA_TEST_DEATH names the file with the event for the dying runner.
"""

import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "elevata.settings")

import django

RUNNER = Path(__file__).with_name("dying_runner.py")


def main() -> None:
    django.setup()
    from elevata.jobs import states
    from elevata.jobs.models import Job
    from loader.runner.supervisor import Patience, Runner
    from loader.runner.worker import Workplace

    command = [sys.executable, str(RUNNER), os.environ["ELEVATA_TEST_DEATH"]]
    place = Workplace(
        make_runner=lambda name, purpose: Runner(
            holder=f"worker {name}", purpose=purpose, command=command, patience=Patience(start=600)
        )
    )
    place.open()
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    while not over.wait(0.1):
        for pk in list(Job.objects.filter(status=states.QUEUED).values_list("pk", flat=True)):
            place.perform(pk)
    place.close()


if __name__ == "__main__":
    main()
