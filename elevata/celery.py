"""The Celery app: workers launch the Spark runner, the scheduler sweeps lost messages."""

import os

from celery import Celery
from django.conf import settings

from elevata.ops.broker import SteadySchedule, use_whole_messages

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "elevata.settings")

use_whole_messages()
app = Celery("elevata")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

if settings.CELERY_BROKER_URL.startswith("filesystem://"):
    # Before the first message, so that health checks find the folder.
    (settings.BROKER_FOLDER / "messages").mkdir(parents=True, exist_ok=True)

# The only entry of beat: schedules are rows, and the sweep starts what is due.
app.conf.beat_schedule = {
    "sweep": {"task": "loader.tasks.sweep", "schedule": SteadySchedule(15.0), "options": {"expires": 15}}
}
