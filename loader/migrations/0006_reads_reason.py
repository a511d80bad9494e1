from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("loader", "0005_queued_at"),
    ]

    operations = [
        migrations.AddField(
            model_name="readrequest",
            name="reason",
            field=models.CharField(blank=True, default="", max_length=1000),
        ),
    ]
