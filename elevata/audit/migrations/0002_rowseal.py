from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="RowSeal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("table", models.CharField(max_length=63)),
                ("row_id", models.BigIntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("parts", models.CharField(max_length=64)),
                ("entry_id", models.BigIntegerField()),
                ("signature", models.CharField(max_length=81)),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(fields=("table", "row_id"), name="row_seal_once"),
                ],
            },
        ),
    ]
