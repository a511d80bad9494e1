"""Sign what was applied, kept histories and executions. What is there by now is taken as it is."""

from uuid import UUID

from django.db import migrations, models

from metadata.domain.canonical import sha256_hex
from metadata.services.signing import sign

_APPLIED = ("environment_id", "dataset_key", "qualified_name", "table_versions", "execution_id", "through", "digest")
_KEPT = ("environment_id", "history_key", "state")
_EXECUTION = ("id", "environment_id", "report_id", "preview_id", "requested_by_id", "requester", "command", "planned")


def sign_rows(apps, schema_editor):
    """Sign every row by the audit key of the settings."""

    def rows(name):
        return apps.get_model("architecture", name).objects.using(schema_editor.connection.alias).order_by("pk")

    for row in rows("AppliedDataset").iterator(chunk_size=200):
        row.digest = sha256_hex(row.state)
        _store(rows("AppliedDataset"), row, "applied-dataset", _APPLIED, digest=row.digest)
    for row in rows("KeptHistory").iterator(chunk_size=200):
        _store(rows("KeptHistory"), row, "kept-history", _KEPT)
    for row in rows("Execution").iterator(chunk_size=200):
        _store(rows("Execution"), row, "execution", _EXECUTION)


def _store(rows, row, purpose, columns, **more):
    content = {name: _plain(getattr(row, name)) for name in columns}
    rows.filter(pk=row.pk).update(signature=str(sign(purpose, content)), **more)


def _plain(value):
    if isinstance(value, dict):
        return sha256_hex(value)
    return str(value) if isinstance(value, UUID) else value


class Migration(migrations.Migration):
    dependencies = [("architecture", "0008_inputs_by_name")]

    operations = [
        migrations.AddField("applieddataset", "digest", models.CharField(default="", editable=False, max_length=64)),
        migrations.AddField("applieddataset", "signature", models.CharField(default="", editable=False, max_length=81)),
        migrations.AddField("kepthistory", "signature", models.CharField(default="", editable=False, max_length=81)),
        migrations.AddField("execution", "signature", models.CharField(default="", editable=False, max_length=81)),
        migrations.RunPython(sign_rows, migrations.RunPython.noop),
    ]
