from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metadata", "0008_notices")]

    operations = [
        migrations.CreateModel(
            name="AuditSegment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("first", models.BigIntegerField(unique=True)),
                ("last", models.BigIntegerField(unique=True)),
                ("head", models.CharField(max_length=64)),
                ("rows", models.PositiveBigIntegerField()),
                ("file", models.CharField(max_length=255)),
                ("digest", models.CharField(max_length=64)),
                ("removed_at", models.DateTimeField()),
                ("actor", models.CharField(max_length=150)),
                (
                    "actor_kind",
                    models.CharField(
                        choices=[("person", "Person"), ("token", "Token"), ("system", "System")], max_length=10
                    ),
                ),
                ("reason", models.TextField()),
                ("request_id", models.CharField(blank=True, default="", max_length=100)),
            ],
            options={
                "ordering": ["first"],
                "abstract": False,
                "base_manager_name": "objects",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("first__gte", 1), ("last__gte", models.F("first"))),
                        name="audit_segment_is_a_range",
                    )
                ],
            },
        ),
    ]
