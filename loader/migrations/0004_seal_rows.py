from django.conf import settings
from django.db import migrations

from elevata.audit.services.row_seals import Part, Sealed, seal_all

CLOCK = ("next_at", "last_due_at", "outcome", "remark", "waiting", "last_delivery", "last_run_id")


def seal_rows(apps, schema_editor):
    """Seal the existing rows as they are; earlier changes by SQL are not detected."""

    def of(app, name):
        return apps.get_model(app, name)

    parts = {
        "System": (Part(of("metadata", "SourceDataset"), "system_id"),),
        "SourceDataset": (Part(of("metadata", "SourceColumn"), "dataset_id"),),
        "SourceColumn": (),
        "TargetSchema": (Part(of("metadata", "TargetDataset"), "schema_id"),),
        "TargetDataset": (
            Part(of("metadata", "DatasetInput"), "dataset_id", whole=True),
            Part(of("metadata", "TargetColumn"), "dataset_id"),
            Part(of("metadata", "Reference"), "child_id"),
            Part(of("metadata", "QualityCheck"), "dataset_id"),
            Part(of("metadata", "Exposure"), "dataset_id"),
        ),
        "TargetColumn": (Part(of("metadata", "ColumnInput"), "column_id", whole=True),),
        "Reference": (Part(of("metadata", "ReferencePair"), "reference_id", whole=True),),
        "QualityCheck": (),
        "Exposure": (),
    }
    for name, belonging in parts.items():
        seal_all(of("metadata", name), Sealed(belonging))
    seal_all(of("accounts", "ServiceAccount"), Sealed())
    seal_all(of("notifications", "Webhook"), Sealed())
    seal_all(of("loader", "Schedule"), Sealed(unsealed=frozenset(CLOCK)))
    seal_all(of("loader", "SavedQuery"), Sealed())


class Migration(migrations.Migration):
    dependencies = [
        ("loader", "0003_datasets_told_by_check_results"),
        ("metadata", "0002_keep_quotes_inside"),
        ("accounts", "0001_initial"),
        ("notifications", "0001_initial"),
        ("audit", "0002_rowseal"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [migrations.RunPython(seal_rows, migrations.RunPython.noop)]
