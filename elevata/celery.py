"""The Celery app: workers launch the Spark runner, the scheduler sweeps lost messages."""

import os

from celery import Celery
from django.conf import settings

from elevata.broker import use_whole_messages

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "elevata.settings")

use_whole_messages()
app = Celery("elevata")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

if settings.CELERY_BROKER_URL.startswith("filesystem://"):
    # The transport creates its folders but not their parents.
    for folder in ("messages", "control"):
        (settings.BROKER_FOLDER / folder).mkdir(parents=True, exist_ok=True)
