"""Reports are found by their environment and scope."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("architecture", "0003_execution_log")]

    operations = [
        migrations.AddIndex(
            model_name="changereport",
            index=models.Index(fields=["environment", "scope", "id"], name="change_report_of_scope"),
        ),
    ]
