"""Tables and columns are classified by how widely they may be shown."""

from django.db import migrations, models

LEVELS = [
    ("public", "Public"),
    ("internal", "Internal"),
    ("confidential", "Confidential"),
    ("restricted", "Restricted"),
]


def _added(model: str) -> migrations.AddField:
    field = models.CharField(blank=True, choices=LEVELS, default="", max_length=20)
    return migrations.AddField(model_name=model, name="sensitivity", field=field)


class Migration(migrations.Migration):
    dependencies = [("metadata", "0005_kept_answers")]

    operations = [_added("sourcecolumn"), _added("targetcolumn"), _added("targetdataset")]
