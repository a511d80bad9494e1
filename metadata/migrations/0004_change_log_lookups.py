"""Entries of the change log are found by a key alone, and by who made them."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("metadata", "0003_source_connections"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            model_name="changelogentry",
            index=models.Index(fields=["subject_key", "id"], name="change_of_key"),
        ),
        migrations.AddIndex(
            model_name="changelogentry",
            index=models.Index(fields=["actor", "id"], name="change_of_actor"),
        ),
    ]
