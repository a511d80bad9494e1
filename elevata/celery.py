"""Celery app of workers and scheduler."""

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
    # The folder is created before the first message, because health checks expect it.
    (settings.BROKER_FOLDER / "messages").mkdir(parents=True, exist_ok=True)

# Only the sweep is an entry of Celery beat; it starts the load runs of due schedules, which are rows.
app.conf.beat_schedule = {"sweep": {"task": "loader.tasks.sweep", "schedule": SteadySchedule(15.0)}}
