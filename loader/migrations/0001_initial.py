import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("architecture", "0001_initial"),
        ("auth", "__first__"),
        ("metadata", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("started_at", models.DateTimeField()),
                ("heartbeat_at", models.DateTimeField()),
                ("runner_pid", models.PositiveIntegerField(blank=True, null=True)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="ReadRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=20)),
                ("arguments", models.JSONField(default=dict)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("answer", models.JSONField(null=True)),
                ("error", models.JSONField(null=True)),
                ("requested_at", models.DateTimeField(auto_now_add=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("claimed_by", models.CharField(blank=True, default="", max_length=200)),
                ("reason", models.CharField(blank=True, default="", max_length=1000)),
                (
                    "dataset",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="metadata.targetdataset",
                    ),
                ),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="architecture.environment"
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("name", models.CharField(max_length=100)),
                ("active", models.BooleanField(default=True)),
                ("cron", models.CharField(max_length=100)),
                ("time_zone", models.CharField(default="UTC", max_length=64)),
                ("scope", models.JSONField()),
                ("allow_empty", models.BooleanField(default=False)),
                ("next_at", models.DateTimeField(blank=True, null=True)),
                ("last_due_at", models.DateTimeField(blank=True, null=True)),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[("", "Nothing yet"), ("started", "Started"), ("skipped", "Skipped")],
                        default="",
                        max_length=10,
                    ),
                ),
                ("remark", models.JSONField(blank=True, null=True)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="schedules",
                        to="architecture.environment",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "indexes": [models.Index(fields=["environment", "next_at"], name="schedule_next")],
                "constraints": [
                    models.UniqueConstraint(fields=("environment", "name"), name="schedule_named_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("active", True), ("next_at__isnull", False)),
                            models.Q(("active", False), ("next_at__isnull", True)),
                            _connector="OR",
                        ),
                        name="schedule_is_due_only_while_active",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LoadRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_id", models.CharField(max_length=100, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("load", "Load"),
                            ("history_batch", "History batch"),
                            ("revert", "Revert"),
                            ("prune", "Prune"),
                            ("compact", "Compact"),
                            ("accept", "Accept"),
                        ],
                        default="load",
                        max_length=20,
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("blocked", "Blocked"),
                            ("canceling", "Canceling"),
                            ("canceled", "Canceled"),
                            ("lost", "Lost"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("scope", models.JSONField()),
                ("load_timestamp", models.DateTimeField()),
                ("allow_empty", models.BooleanField(default=False)),
                ("allow_deletes", models.BooleanField(default=False)),
                (
                    "requester",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text="Who asked, where that is no user of the pages.",
                        max_length=150,
                    ),
                ),
                ("reason", models.CharField(blank=True, default="", max_length=500)),
                ("details", models.JSONField(blank=True, default=dict)),
                ("requested_at", models.DateTimeField(auto_now_add=True)),
                ("queued_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("claimed_by", models.CharField(blank=True, default="", max_length=200)),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("heartbeat_at", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("phase", models.CharField(blank=True, default="", max_length=200)),
                ("error", models.JSONField(blank=True, null=True)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="load_runs",
                        to="architecture.environment",
                    ),
                ),
                (
                    "execution",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="load_runs",
                        to="architecture.execution",
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "schedule",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="runs",
                        to="loader.schedule",
                    ),
                ),
            ],
            options={
                "ordering": ["-requested_at", "-id"],
                "permissions": [("start_load", "Can start and cancel load runs")],
                "indexes": [models.Index(fields=["-requested_at", "-id"], name="load_run_newest")],
            },
        ),
        migrations.CreateModel(
            name="RunEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("attempt", models.PositiveIntegerField()),
                ("level", models.CharField(default="info", max_length=10)),
                ("dataset_name", models.CharField(blank=True, default="", max_length=310)),
                ("message", models.TextField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="events", to="loader.loadrun"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="GovernedRunRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("record_id", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("attempt", models.PositiveIntegerField()),
                ("document", models.JSONField()),
                ("digest", models.CharField(max_length=64)),
                ("outcome", models.CharField(max_length=10)),
                ("created_at", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="records", to="loader.loadrun"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "abstract": False,
                "base_manager_name": "objects",
                "constraints": [
                    models.UniqueConstraint(fields=("run", "attempt"), name="governed_record_once_per_attempt"),
                    models.CheckConstraint(
                        condition=models.Q(("digest__length", 64)), name="governed_record_digest_is_whole"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DatasetRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("dataset_key", models.UUIDField()),
                ("qualified_name", models.CharField(max_length=310)),
                ("kind", models.CharField(max_length=20)),
                ("ordinal", models.PositiveIntegerField()),
                ("depends_on", models.JSONField(default=list)),
                ("sequence", models.PositiveBigIntegerField(blank=True, null=True)),
                ("attempt", models.PositiveIntegerField(default=0)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("skipped", "Skipped"),
                            ("canceled", "Canceled"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("phase", models.CharField(blank=True, default="", max_length=100)),
                ("counts", models.JSONField(default=dict)),
                (
                    "drift",
                    models.JSONField(
                        default=list, help_text="Columns that were delivered but are not in the contract."
                    ),
                ),
                ("warnings", models.JSONField(default=list)),
                ("error", models.JSONField(blank=True, null=True)),
                ("skipped_because", models.CharField(blank=True, default="", max_length=310)),
                ("table_version_before", models.BigIntegerField(blank=True, null=True)),
                ("table_version_after", models.BigIntegerField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("seconds", models.FloatField(blank=True, null=True)),
                (
                    "dataset",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="dataset_runs",
                        to="metadata.targetdataset",
                    ),
                ),
                (
                    "reverted_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="reverted_rows",
                        to="loader.loadrun",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="datasets", to="loader.loadrun"
                    ),
                ),
            ],
            options={
                "ordering": ["run", "ordinal"],
                "indexes": [models.Index(fields=["dataset_key", "id"], name="dataset_run_newest")],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "dataset_key"), name="dataset_run_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("sequence__isnull", False)),
                        fields=("dataset_key", "sequence"),
                        name="dataset_run_sequence_once",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="schedule",
            name="last_run",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="loader.loadrun",
            ),
        ),
    ]
