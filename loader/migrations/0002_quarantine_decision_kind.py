from django.db import migrations


def rename_kind(apps, schema_editor):
    """Give queued and ended decisions on quarantined rows the kind that reads do not share."""
    apps.get_model("jobs", "Job").objects.filter(kind="quarantine", load_run_row__isnull=False).update(
        kind="quarantine_decision"
    )


def restore_kind(apps, schema_editor):
    apps.get_model("jobs", "Job").objects.filter(kind="quarantine_decision").update(kind="quarantine")


class Migration(migrations.Migration):
    dependencies = [
        ("loader", "0001_initial"),
    ]

    operations = [migrations.RunPython(rename_kind, restore_kind)]
