import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

ROLES = [
    ("viewer", "Viewer"),
    ("editor", "Editor"),
    ("approver", "Approver"),
    ("operator", "Operator"),
    ("admin", "Admin"),
]
LAYERS = [("raw", "Raw"), ("stage", "Stage"), ("rawcore", "Rawcore"), ("bizcore", "Bizcore"), ("serving", "Serving")]


class Migration(migrations.Migration):
    dependencies = [
        ("metadata", "0006_sensitivity"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="personaltoken",
            name="scope",
            field=models.CharField(
                choices=[("read", "Read"), ("write", "Read and write")], default="write", max_length=5
            ),
        ),
        migrations.CreateModel(
            name="Identity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("issuer", models.CharField(max_length=255)),
                ("subject", models.CharField(max_length=255)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identities",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "identities",
                "ordering": ["issuer", "subject"],
                "constraints": [models.UniqueConstraint(fields=("issuer", "subject"), name="identity_once")],
            },
        ),
        migrations.CreateModel(
            name="ServiceAccount",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="service_account",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="service_accounts",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"ordering": ["user__username"]},
        ),
        migrations.CreateModel(
            name="RoleGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("role", models.CharField(choices=ROLES, max_length=10)),
                ("layer", models.CharField(blank=True, choices=LAYERS, default="", max_length=10)),
                ("environment", models.CharField(blank=True, default="", max_length=100)),
                (
                    "schema",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_grants",
                        to="metadata.targetschema",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_grants",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["role", "layer", "schema__name", "environment"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("layer", ""), ("schema", None), models.Q(("environment", ""), _negated=True)),
                            models.Q(("environment", ""), ("layer", ""), ("schema__isnull", False)),
                            models.Q(models.Q(("layer", ""), _negated=True), ("environment", ""), ("schema", None)),
                            _connector="OR",
                        ),
                        name="role_grant_for_one_place",
                        violation_error_message="A role is granted for one layer, one schema or one environment.",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("schema", None)),
                        fields=("user", "role", "layer", "environment"),
                        name="role_grant_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("schema__isnull", False)),
                        fields=("user", "role", "schema"),
                        name="role_grant_of_schema_once",
                    ),
                ],
            },
        ),
    ]
