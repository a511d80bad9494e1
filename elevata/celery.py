"""The Celery app: workers launch the Spark runner, the scheduler sweeps lost messages."""

import os

from celery import Celery
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "elevata.settings")

app = Celery("elevata")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

if settings.CELERY_BROKER_URL.startswith("filesystem://"):
    # The transport creates its folders but not their parents.
    for folder in ("messages", "control"):
        (settings.BROKER_FOLDER / folder).mkdir(parents=True, exist_ok=True)
