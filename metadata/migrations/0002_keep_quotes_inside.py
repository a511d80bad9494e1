from django.db import migrations


def keep_quotes_inside(apps, schema_editor):
    """Let CSV sources that exist read quotes inside of fields as before; new sources refuse them."""
    sources = apps.get_model("metadata", "SourceDataset").objects.filter(format="csv")
    for source in sources.exclude(options__has_key="quotes_inside"):
        source.options = source.options | {"quotes_inside": "keep"}
        source.save(update_fields=["options"])


class Migration(migrations.Migration):
    dependencies = [
        ("metadata", "0001_initial"),
    ]

    operations = [migrations.RunPython(keep_quotes_inside, migrations.RunPython.noop)]
