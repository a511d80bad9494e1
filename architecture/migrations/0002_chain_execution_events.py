from datetime import UTC

from django.db import migrations

from elevata.audit.services.chain import pending_signature
from elevata.core.canonical_json import sha256_hex

KIND = "execution_event"
BATCH = 500


def chain_events(apps, schema_editor):
    """Seal the existing log lines of executions as they are; earlier changes by SQL are not detected."""
    rows = apps.get_model("architecture", "ExecutionEvent").objects.order_by("pk")
    records = apps.get_model("audit", "ChainPending").objects
    last = 0
    while batch := list(rows.filter(pk__gt=last)[:BATCH]):
        subjects = [[row.pk, sha256_hex(content_of(row))] for row in batch]
        signature = pending_signature(KIND, subjects)
        records.create(kind=KIND, subjects=subjects, key_id=signature.key_id, signature=signature.value)
        last = batch[-1].pk


def content_of(row):
    return {
        "id": row.pk,
        "execution": row.execution_id,
        "at": row.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "attempt": row.attempt,
        "level": row.level,
        "step": row.step,
        "message": row.message,
    }


class Migration(migrations.Migration):
    dependencies = [
        ("architecture", "0001_initial"),
        ("audit", "0001_initial"),
    ]

    operations = [migrations.RunPython(chain_events, migrations.RunPython.noop)]
