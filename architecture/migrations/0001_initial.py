import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "__first__"),
    ]

    operations = [
        migrations.CreateModel(
            name="Environment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=50, unique=True)),
                ("warehouse", models.CharField(max_length=1000)),
                ("policies", models.JSONField(blank=True, default=dict)),
                ("policies_version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="ChangeReport",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("report_id", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("scope", models.JSONField()),
                ("document", models.JSONField()),
                ("content", models.JSONField()),
                ("fingerprint", models.CharField(db_index=True, max_length=64)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("blocked", "Blocked"),
                            ("no_changes", "No changes"),
                            ("approved", "Approved"),
                            ("rejected", "Rejected"),
                            ("superseded", "Superseded"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "risk",
                    models.CharField(
                        choices=[("safe", "Safe"), ("review", "Needs review"), ("destructive", "Destructive")],
                        max_length=12,
                    ),
                ),
                ("destructive", models.BooleanField()),
                ("authors", models.JSONField(default=list)),
                ("through", models.BigIntegerField(default=0)),
                ("observed_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("signature", models.CharField(default="", editable=False, max_length=81)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "superseded_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="supersedes",
                        to="architecture.changereport",
                    ),
                ),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="reports",
                        to="architecture.environment",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [models.Index(fields=["environment", "scope", "id"], name="change_report_of_scope")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("fingerprint__length", 64)), name="change_report_fingerprint_is_whole"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status__in", ["open", "blocked", "no_changes", "approved", "rejected", "superseded"])
                        ),
                        name="change_report_status_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "superseded"), ("superseded_by__isnull", False)),
                            models.Q(
                                models.Q(("status", "superseded"), _negated=True), ("superseded_by__isnull", True)
                            ),
                            _connector="OR",
                        ),
                        name="change_report_superseded_by_another",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="KeptHistory",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("history_key", models.UUIDField()),
                ("state", models.JSONField()),
                ("signature", models.CharField(default="", editable=False, max_length=81)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="kept_histories",
                        to="architecture.environment",
                    ),
                ),
            ],
            options={
                "ordering": ["environment", "history_key"],
                "constraints": [
                    models.UniqueConstraint(fields=("environment", "history_key"), name="kept_history_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Lease",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("dataset_key", models.UUIDField()),
                (
                    "holder_kind",
                    models.CharField(
                        blank=True,
                        choices=[("", "Nobody"), ("load run", "Load run"), ("execution", "Execution")],
                        default="",
                        max_length=20,
                    ),
                ),
                ("holder_id", models.CharField(blank=True, default="", max_length=100)),
                ("holder_attempt", models.PositiveIntegerField(default=0)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("taken_at", models.DateTimeField(blank=True, null=True)),
                ("heartbeat_at", models.DateTimeField(blank=True, null=True)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="leases",
                        to="architecture.environment",
                    ),
                ),
            ],
            options={
                "ordering": ["environment", "dataset_key"],
                "constraints": [
                    models.UniqueConstraint(fields=("environment", "dataset_key"), name="lease_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("heartbeat_at__isnull", True),
                                ("holder_id", ""),
                                ("holder_kind", ""),
                                ("taken_at__isnull", True),
                            ),
                            models.Q(
                                models.Q(("holder_kind", ""), _negated=True),
                                models.Q(("holder_id", ""), _negated=True),
                                ("fence__gte", 1),
                                ("heartbeat_at__isnull", False),
                                ("taken_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="lease_is_held_whole_or_free",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Observation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("table_key", models.UUIDField()),
                ("document", models.JSONField(null=True)),
                ("size", models.JSONField(null=True)),
                ("observed_at", models.DateTimeField()),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="observations",
                        to="architecture.environment",
                    ),
                ),
            ],
            options={
                "ordering": ["environment", "table_key"],
                "constraints": [models.UniqueConstraint(fields=("environment", "table_key"), name="observation_once")],
            },
        ),
        migrations.CreateModel(
            name="PolicyProposal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("proposal_id", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("policies", models.JSONField()),
                ("base_version", models.PositiveIntegerField()),
                ("before", models.JSONField()),
                ("after", models.JSONField()),
                ("looser", models.JSONField()),
                ("reason", models.CharField(blank=True, default="", max_length=1000)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("proposed", "Proposed"),
                            ("accepted", "Accepted"),
                            ("rejected", "Rejected"),
                            ("withdrawn", "Withdrawn"),
                            ("outdated", "Outdated"),
                        ],
                        default="proposed",
                        max_length=9,
                    ),
                ),
                ("proposed_at", models.DateTimeField(auto_now_add=True)),
                ("decided_at", models.DateTimeField(null=True)),
                ("note", models.CharField(blank=True, default="", max_length=1000)),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="proposals",
                        to="architecture.environment",
                    ),
                ),
                (
                    "proposed_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status__in", ["proposed", "accepted", "rejected", "withdrawn", "outdated"])
                        ),
                        name="policy_proposal_status_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("decided_at__isnull", True), ("decided_by__isnull", True), ("status", "proposed")
                            ),
                            models.Q(
                                models.Q(("status", "proposed"), _negated=True),
                                ("decided_at__isnull", False),
                                ("decided_by__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="policy_proposal_is_decided_or_not",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "accepted"), _negated=True),
                            models.Q(("decided_by", models.F("proposed_by")), _negated=True),
                            _connector="OR",
                        ),
                        name="policy_proposal_accepted_by_another",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("status", "proposed")),
                        fields=("environment",),
                        name="policy_proposal_one_at_a_time",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PolicyRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("set", "Set"),
                            ("proposed", "Proposed"),
                            ("accepted", "Accepted"),
                            ("rejected", "Rejected"),
                            ("withdrawn", "Withdrawn"),
                            ("outdated", "Outdated"),
                        ],
                        max_length=9,
                    ),
                ),
                ("version", models.PositiveIntegerField()),
                ("policies", models.JSONField()),
                ("policy", models.JSONField()),
                ("person_name", models.CharField(max_length=150)),
                ("note", models.CharField(blank=True, default="", max_length=1000)),
                ("at", models.DateTimeField()),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="policy_records",
                        to="architecture.environment",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "proposal",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="records",
                        to="architecture.policyproposal",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "abstract": False,
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="Preview",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("document", models.JSONField()),
                ("fingerprint", models.CharField(max_length=64)),
                ("sizes", models.JSONField(default=dict)),
                ("estimate", models.JSONField(default=dict)),
                ("observed_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("made_at", models.DateTimeField(auto_now=True)),
                ("signature", models.CharField(default="", editable=False, max_length=81)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="previews",
                        to="architecture.changereport",
                    ),
                ),
            ],
            options={
                "ordering": ["-made_at", "-id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("fingerprint__length", 64)), name="preview_fingerprint_is_whole"
                    ),
                    models.UniqueConstraint(fields=("report", "fingerprint"), name="preview_once_per_fingerprint"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Approval",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("fingerprint", models.CharField(max_length=64)),
                ("person_name", models.CharField(max_length=150)),
                ("roles", models.JSONField(default=list)),
                (
                    "decision",
                    models.CharField(choices=[("approve", "Approved"), ("reject", "Rejected")], max_length=10),
                ),
                ("note", models.TextField(blank=True, default="")),
                ("at", models.DateTimeField()),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="approvals",
                        to="architecture.changereport",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "abstract": False,
                "base_manager_name": "objects",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("fingerprint__length", 64)), name="approval_fingerprint_is_whole"
                    ),
                    models.UniqueConstraint(fields=("report", "person"), name="approval_once_per_person"),
                    models.CheckConstraint(
                        condition=models.Q(("decision__in", ["approve", "reject"])), name="approval_is_yes_or_no"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Execution",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("canceling", "Canceling"),
                            ("canceled", "Canceled"),
                            ("lost", "Lost"),
                            ("abandoned", "Abandoned"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("requester", models.CharField(blank=True, default="", max_length=150)),
                ("command", models.CharField(blank=True, default="", max_length=200)),
                ("reason", models.CharField(blank=True, default="", max_length=200)),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("claimed_by", models.CharField(blank=True, default="", max_length=200)),
                ("heartbeat_at", models.DateTimeField(blank=True, null=True)),
                ("phase", models.CharField(blank=True, default="", max_length=200)),
                ("error", models.JSONField(blank=True, null=True)),
                ("versions", models.JSONField(blank=True, default=dict)),
                ("planned", models.JSONField(blank=True, default=dict)),
                ("signature", models.CharField(default="", editable=False, max_length=81)),
                ("requested_at", models.DateTimeField(auto_now_add=True)),
                ("queued_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="executions",
                        to="architecture.environment",
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="executions",
                        to="architecture.changereport",
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "preview",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="executions",
                        to="architecture.preview",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("report__isnull", False), models.Q(("status", "abandoned"), _negated=True)),
                        fields=("report",),
                        name="execution_once_per_report",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "status__in",
                                [
                                    "queued",
                                    "running",
                                    "canceling",
                                    "succeeded",
                                    "failed",
                                    "canceled",
                                    "lost",
                                    "abandoned",
                                ],
                            )
                        ),
                        name="execution_status_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("preview__isnull", True), ("report__isnull", True)),
                            models.Q(("preview__isnull", False), ("report__isnull", False)),
                            _connector="OR",
                        ),
                        name="execution_of_a_report_has_a_preview",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Rehearsal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
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
                ("result", models.JSONField(null=True)),
                ("error", models.JSONField(null=True)),
                ("requested_at", models.DateTimeField(auto_now_add=True)),
                ("claimed_by", models.CharField(blank=True, default="", max_length=200)),
                ("heartbeat_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "preview",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="rehearsals",
                        to="architecture.preview",
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("status__in", ["queued", "running"])),
                        fields=("preview",),
                        name="rehearsal_one_at_a_time",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ExecutionEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("attempt", models.PositiveIntegerField()),
                ("level", models.CharField(default="info", max_length=10)),
                ("step", models.PositiveIntegerField(null=True)),
                ("message", models.TextField()),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="events", to="architecture.execution"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "abstract": False,
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="ExecutionRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("record_id", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("document", models.JSONField()),
                ("digest", models.CharField(max_length=64)),
                ("outcome", models.CharField(max_length=10)),
                ("created_at", models.DateTimeField()),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="records",
                        to="architecture.environment",
                    ),
                ),
                (
                    "execution",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="record", to="architecture.execution"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "abstract": False,
                "base_manager_name": "objects",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("digest__length", 64)), name="execution_record_digest_is_whole"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AppliedDataset",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("dataset_key", models.UUIDField()),
                ("qualified_name", models.CharField(max_length=310)),
                ("state", models.JSONField()),
                ("table_versions", models.JSONField(default=dict)),
                ("through", models.BigIntegerField(default=0)),
                ("digest", models.CharField(default="", editable=False, max_length=64)),
                ("signature", models.CharField(default="", editable=False, max_length=81)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="applied_datasets",
                        to="architecture.environment",
                    ),
                ),
                (
                    "execution",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="architecture.execution",
                    ),
                ),
            ],
            options={
                "ordering": ["environment", "qualified_name"],
                "constraints": [
                    models.UniqueConstraint(fields=("environment", "dataset_key"), name="applied_dataset_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="ExecutionOperation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("ordinal", models.PositiveIntegerField()),
                ("operation", models.PositiveIntegerField(null=True)),
                ("op", models.CharField(max_length=30)),
                ("dataset_key", models.UUIDField(null=True)),
                ("table_key", models.UUIDField()),
                ("qualified_name", models.CharField(max_length=310)),
                ("column_name", models.CharField(blank=True, default="", max_length=260)),
                ("statement", models.TextField(blank=True, default="")),
                (
                    "status",
                    models.CharField(
                        choices=[("planned", "Planned"), ("succeeded", "Succeeded"), ("failed", "Failed")],
                        default="planned",
                        max_length=10,
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("version_before", models.BigIntegerField(null=True)),
                ("version_after", models.BigIntegerField(null=True)),
                ("observed", models.JSONField(null=True)),
                ("error", models.TextField(blank=True, default="")),
                ("seconds", models.FloatField(null=True)),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="operations",
                        to="architecture.execution",
                    ),
                ),
            ],
            options={
                "ordering": ["execution", "ordinal"],
                "constraints": [
                    models.UniqueConstraint(fields=("execution", "ordinal"), name="execution_operation_once")
                ],
            },
        ),
        migrations.AddField(
            model_name="changereport",
            name="undo_of",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="undo_reports",
                to="architecture.executionrecord",
            ),
        ),
    ]
