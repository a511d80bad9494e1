from django.db import migrations, models


class Migration(migrations.Migration):
    """How a system is reached, and what a person wants a delivered column to be called."""

    dependencies = [("metadata", "0002_change_log")]

    operations = [
        migrations.AddField("system", "secret", models.CharField(blank=True, default="", max_length=100)),
        migrations.AddField("sourcecolumn", "target_name", models.CharField(blank=True, default="", max_length=200)),
        migrations.AlterField(
            "sourcedataset",
            "format",
            models.CharField(
                choices=[
                    ("csv", "CSV"),
                    ("jsonl", "JSON lines"),
                    ("parquet", "Parquet"),
                    ("table", "Database table"),
                ],
                default="csv",
                max_length=10,
            ),
        ),
    ]
