import django.db.models.deletion
import django.db.models.functions.text
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("auth", "__first__"),
    ]

    operations = [
        migrations.CreateModel(
            name="Right",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ],
            options={
                "permissions": [
                    ("read_metadata", "Can read metadata, reports, load runs and the change log"),
                    ("read_data", "Can read data"),
                    ("read_sensitive", "Can read personal, confidential and restricted values"),
                    ("change_metadata", "Can change metadata"),
                    ("approve_reports", "Can approve and reject change reports"),
                    ("execute_reports", "Can preview and execute change reports"),
                    ("manage_policies", "Can change the policies of environments"),
                    ("manage_people", "Can manage people, roles and tokens"),
                    ("manage_webhooks", "Can manage webhooks and see what was sent to them"),
                ],
                "managed": False,
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="ChainHead",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sequence", models.BigIntegerField(default=0)),
                ("hash", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="ChainPending",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=30)),
                ("subjects", models.JSONField()),
                ("key_id", models.CharField(default="", max_length=16)),
                ("signature", models.CharField(default="", max_length=64)),
                ("refused", models.CharField(blank=True, default="", max_length=30)),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("event_id", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("report.waiting", "report.waiting"),
                            ("report.approved", "report.approved"),
                            ("report.rejected", "report.rejected"),
                            ("report.executed", "report.executed"),
                            ("execution.failed", "execution.failed"),
                            ("drift.found", "drift.found"),
                            ("load.failed", "load.failed"),
                            ("account.changed", "account.changed"),
                            ("policy.proposed", "policy.proposed"),
                            ("policy.decided", "policy.decided"),
                            ("webhook.test", "webhook.test"),
                        ],
                        max_length=40,
                    ),
                ),
                ("at", models.DateTimeField(auto_now_add=True, db_index=True)),
                ("environment", models.CharField(blank=True, default="", max_length=50)),
                ("subject_kind", models.CharField(max_length=40)),
                ("subject_key", models.CharField(max_length=200)),
                ("subject_name", models.CharField(max_length=400)),
                ("title", models.CharField(max_length=500)),
                ("link", models.CharField(max_length=500)),
                ("facts", models.JSONField(default=dict)),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="System",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("description", models.TextField(blank=True, default="")),
                ("owner", models.CharField(blank=True, default="", max_length=200)),
                ("tags", models.JSONField(blank=True, default=list, help_text="A list of words.")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("short_name", models.CharField(max_length=20, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[("files", "Files"), ("jdbc", "Database (JDBC)")], default="files", max_length=10
                    ),
                ),
                ("location", models.CharField(blank=True, default="", max_length=1000)),
                ("secret", models.CharField(blank=True, default="", max_length=100)),
                ("active", models.BooleanField(default=True)),
            ],
            options={
                "ordering": ["short_name"],
            },
        ),
        migrations.CreateModel(
            name="TargetSchema",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("description", models.TextField(blank=True, default="")),
                ("owner", models.CharField(blank=True, default="", max_length=200)),
                ("tags", models.JSONField(blank=True, default=list, help_text="A list of words.")),
                ("name", models.CharField(max_length=100, unique=True)),
                (
                    "layer",
                    models.CharField(
                        choices=[
                            ("raw", "Raw"),
                            ("stage", "Stage"),
                            ("rawcore", "Rawcore"),
                            ("bizcore", "Bizcore"),
                            ("serving", "Serving"),
                        ],
                        max_length=10,
                    ),
                ),
                ("ordinal", models.PositiveSmallIntegerField(default=0)),
            ],
            options={
                "ordering": ["ordinal", "name"],
            },
        ),
        migrations.CreateModel(
            name="TemporaryPassword",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="temporary_password",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("set_by", models.CharField(max_length=150)),
                ("set_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "ordering": ["user__username"],
            },
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("name", models.CharField(max_length=100, unique=True)),
                ("url", models.CharField(max_length=1000)),
                ("events", models.JSONField(default=list)),
                ("secret", models.CharField(max_length=110)),
                ("former_secret", models.CharField(blank=True, default="", max_length=110)),
                ("active", models.BooleanField(default=True)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="ChainLink",
            fields=[
                ("sequence", models.BigIntegerField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=30)),
                ("subject_id", models.BigIntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("previous", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64)),
                ("sealed_at", models.DateTimeField()),
                ("key_id", models.CharField(default="", max_length=16)),
                ("signature", models.CharField(default="", max_length=64)),
            ],
            options={
                "ordering": ["sequence"],
                "constraints": [models.UniqueConstraint(fields=("kind", "subject_id"), name="chain_link_once")],
            },
        ),
        migrations.CreateModel(
            name="NoticeChoice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("listed", models.JSONField(default=list)),
                ("emailed", models.JSONField(default=list)),
                (
                    "person",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PersonalToken",
            fields=[
                ("digest", models.CharField(max_length=128, primary_key=True, serialize=False)),
                ("token_key", models.CharField(db_index=True, max_length=25)),
                ("created", models.DateTimeField(auto_now_add=True)),
                ("expiry", models.DateTimeField(blank=True, null=True)),
                ("name", models.CharField(blank=True, default="", max_length=100)),
                (
                    "scope",
                    models.CharField(
                        choices=[("read", "Read"), ("write", "Read and write")], default="write", max_length=5
                    ),
                ),
                ("last_used_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="auth_token_set",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["user", "created"],
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
            options={
                "ordering": ["user__username"],
            },
        ),
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
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
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
        migrations.CreateModel(
            name="ChangeLogEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("actor", models.CharField(max_length=150)),
                (
                    "actor_kind",
                    models.CharField(
                        choices=[("person", "Person"), ("token", "Token"), ("system", "System")], max_length=10
                    ),
                ),
                ("action", models.CharField(max_length=30)),
                ("subject_kind", models.CharField(max_length=30)),
                ("subject_key", models.CharField(max_length=200)),
                ("subject_name", models.TextField()),
                ("dataset_key", models.UUIDField(null=True)),
                ("changes", models.TextField()),
                ("reason", models.TextField(blank=True, default="")),
                ("request_id", models.CharField(blank=True, default="", max_length=100)),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "indexes": [
                    models.Index(fields=["dataset_key", "id"], name="change_of_dataset"),
                    models.Index(fields=["subject_kind", "subject_key", "id"], name="change_of_subject"),
                    models.Index(fields=["subject_key", "id"], name="change_of_key"),
                    models.Index(fields=["actor", "id"], name="change_of_actor"),
                ],
            },
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
            name="KeptAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=255)),
                ("digest", models.CharField(max_length=64)),
                ("started_at", models.DateTimeField(db_index=True)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("content_type", models.CharField(blank=True, default="", max_length=100)),
                ("headers", models.JSONField(default=dict)),
                ("body", models.TextField(blank=True, default="")),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("person", "key"), name="kept_answer_key_once")],
            },
        ),
        migrations.CreateModel(
            name="SourceDataset",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("description", models.TextField(blank=True, default="")),
                ("owner", models.CharField(blank=True, default="", max_length=200)),
                ("tags", models.JSONField(blank=True, default=list, help_text="A list of words.")),
                ("key", models.UUIDField(editable=False, unique=True)),
                ("name", models.CharField(max_length=200)),
                ("short_name", models.CharField(max_length=100)),
                ("location", models.CharField(max_length=1000)),
                (
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
                ("options", models.JSONField(blank=True, default=dict)),
                (
                    "history_policy",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        help_text="What generated history starts from; empty means full snapshots.",
                    ),
                ),
                ("historize", models.BooleanField(default=True)),
                ("active", models.BooleanField(default=True)),
                (
                    "system",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="datasets", to="metadata.system"
                    ),
                ),
            ],
            options={
                "ordering": ["system__short_name", "short_name"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("system", "name"),
                        name="source_dataset_name_once",
                        violation_error_message="The system has another dataset of this name.",
                    ),
                    models.UniqueConstraint(
                        models.F("system"),
                        django.db.models.functions.text.Lower("short_name"),
                        name="source_dataset_short_name_once",
                        violation_error_message="The system has another dataset of this short name.",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("sending", "Sending"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("tries", models.PositiveIntegerField()),
                ("next_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "event",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="metadata.event"
                    ),
                ),
                (
                    "webhook",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="metadata.webhook",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [models.Index(fields=["status", "next_at"], name="delivery_due")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("person__isnull", True), ("webhook__isnull", False)),
                            models.Q(("person__isnull", False), ("webhook__isnull", True)),
                            _connector="OR",
                        ),
                        name="delivery_to_one",
                    ),
                    models.UniqueConstraint(fields=("event", "webhook"), name="delivery_once_per_webhook"),
                    models.UniqueConstraint(fields=("event", "person"), name="delivery_once_per_person"),
                ],
            },
        ),
        migrations.CreateModel(
            name="RoleGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "Viewer"),
                            ("editor", "Editor"),
                            ("approver", "Approver"),
                            ("operator", "Operator"),
                            ("steward", "Steward"),
                            ("admin", "Admin"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "layer",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("raw", "Raw"),
                            ("stage", "Stage"),
                            ("rawcore", "Rawcore"),
                            ("bizcore", "Bizcore"),
                            ("serving", "Serving"),
                        ],
                        default="",
                        max_length=10,
                    ),
                ),
                ("environment", models.CharField(blank=True, default="", max_length=100)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_grants",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "schema",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_grants",
                        to="metadata.targetschema",
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
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("read_at", models.DateTimeField(null=True)),
                (
                    "event",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="notices", to="metadata.event"
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [
                    models.Index(fields=["person", "-id"], name="notice_of_person"),
                    models.Index(
                        condition=models.Q(("read_at__isnull", True)), fields=["person"], name="notice_unread"
                    ),
                ],
                "constraints": [models.UniqueConstraint(fields=("event", "person"), name="notice_once")],
            },
        ),
        migrations.CreateModel(
            name="SourceColumn",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("description", models.TextField(blank=True, default="")),
                ("owner", models.CharField(blank=True, default="", max_length=200)),
                ("tags", models.JSONField(blank=True, default=list, help_text="A list of words.")),
                (
                    "sensitivity",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("public", "Public"),
                            ("internal", "Internal"),
                            ("confidential", "Confidential"),
                            ("restricted", "Restricted"),
                        ],
                        default="",
                        max_length=20,
                    ),
                ),
                ("data_type", models.CharField(max_length=20)),
                ("length", models.PositiveIntegerField(blank=True, null=True)),
                ("precision", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("scale", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("nullable", models.BooleanField(default=True)),
                ("key", models.UUIDField(editable=False, unique=True)),
                ("name", models.CharField(max_length=200)),
                ("target_name", models.CharField(blank=True, default="", max_length=200)),
                ("ordinal", models.PositiveIntegerField()),
                ("key_ordinal", models.PositiveSmallIntegerField(blank=True, null=True)),
                (
                    "integrate",
                    models.BooleanField(default=True, help_text="Whether generation takes it into the warehouse."),
                ),
                ("pii", models.BooleanField(default=False)),
                ("active", models.BooleanField(default=True)),
                (
                    "dataset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="columns", to="metadata.sourcedataset"
                    ),
                ),
            ],
            options={
                "ordering": ["dataset", "ordinal", "id"],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("dataset"),
                        django.db.models.functions.text.Lower("name"),
                        name="source_column_name_once",
                        violation_error_message="The dataset has another column of this name (case does not part names).",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("active", True), ("key_ordinal__isnull", False)),
                        fields=("dataset", "key_ordinal"),
                        name="source_column_key_ordinal_once",
                        violation_error_message="Another column has this place in the business key.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "data_type__in",
                                (
                                    "string",
                                    "integer",
                                    "bigint",
                                    "decimal",
                                    "float",
                                    "boolean",
                                    "date",
                                    "time",
                                    "timestamp",
                                    "binary",
                                    "uuid",
                                    "json",
                                ),
                            )
                        ),
                        name="source_column_data_type_is_known",
                        violation_error_message="A type is one of string, integer, bigint, decimal, float, boolean, date, time, timestamp, binary, uuid, json.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("length__isnull", True),
                            models.Q(("data_type", "string"), ("length__gte", 1)),
                            _connector="OR",
                        ),
                        name="source_column_length_only_on_string",
                        violation_error_message="Only string has a length, and it is at least 1.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                models.Q(("data_type", "decimal"), _negated=True),
                                ("precision__isnull", True),
                                ("scale__isnull", True),
                            ),
                            models.Q(
                                ("data_type", "decimal"),
                                ("precision__gte", 1),
                                ("precision__isnull", False),
                                ("precision__lte", 38),
                                ("scale__gte", 0),
                                ("scale__isnull", False),
                                ("scale__lte", models.F("precision")),
                            ),
                            _connector="OR",
                        ),
                        name="source_column_precision_and_scale_on_decimal",
                        violation_error_message="decimal needs precision 1 to 38 and a scale up to it; other types have neither.",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TargetDataset",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("description", models.TextField(blank=True, default="")),
                ("owner", models.CharField(blank=True, default="", max_length=200)),
                ("tags", models.JSONField(blank=True, default=list, help_text="A list of words.")),
                (
                    "sensitivity",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("public", "Public"),
                            ("internal", "Internal"),
                            ("confidential", "Confidential"),
                            ("restricted", "Restricted"),
                        ],
                        default="",
                        max_length=20,
                    ),
                ),
                ("active", models.BooleanField(default=True)),
                ("retired_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "retired_by",
                    models.CharField(
                        blank=True,
                        choices=[("generation", "Generation"), ("person", "A person")],
                        default="",
                        editable=False,
                        max_length=20,
                    ),
                ),
                ("key", models.UUIDField(editable=False, unique=True)),
                ("name", models.CharField(max_length=200)),
                ("former_names", models.JSONField(blank=True, default=list)),
                (
                    "materialization",
                    models.CharField(choices=[("table", "Table"), ("view", "View")], default="table", max_length=10),
                ),
                ("historize", models.BooleanField(default=False)),
                ("history_policy", models.JSONField(blank=True, default=dict)),
                ("filter", models.TextField(blank=True, default="", help_text="A condition on the rows, as SQL.")),
                ("hash_version", models.PositiveSmallIntegerField(default=1, editable=False)),
                (
                    "generated_from",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="generated",
                        to="metadata.sourcedataset",
                    ),
                ),
                (
                    "history_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="history",
                        to="metadata.targetdataset",
                    ),
                ),
                (
                    "schema",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="datasets", to="metadata.targetschema"
                    ),
                ),
            ],
            options={
                "ordering": ["schema__ordinal", "schema__name", "name"],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("schema"),
                        django.db.models.functions.text.Lower("name"),
                        name="target_dataset_name_once",
                        violation_error_message="The schema has another dataset of this name (case does not part names).",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("history_of__isnull", False), ("name__iendswith", "_hist")),
                            models.Q(
                                ("history_of__isnull", True), models.Q(("name__iendswith", "_hist"), _negated=True)
                            ),
                            _connector="OR",
                        ),
                        name="target_dataset_hist_suffix_is_reserved",
                        violation_error_message="The suffix _hist is reserved for history tables.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("active", True), ("retired_at__isnull", True), ("retired_by", "")),
                            models.Q(
                                ("active", False),
                                ("retired_at__isnull", False),
                                ("retired_by__in", ["generation", "person"]),
                            ),
                            _connector="OR",
                        ),
                        name="target_dataset_retired_means_inactive",
                        violation_error_message="Retired means: not active, with a time and by whom.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("historize", False),
                            models.Q(("history_of__isnull", True), ("materialization", "table")),
                            _connector="OR",
                        ),
                        name="target_dataset_only_tables_have_history",
                        violation_error_message="Only a table that is no history itself can be historized.",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DeliveryAttempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("code", models.PositiveSmallIntegerField(null=True)),
                ("milliseconds", models.PositiveIntegerField(null=True)),
                ("answer", models.TextField(blank=True, default="")),
                ("error", models.CharField(blank=True, default="", max_length=500)),
                (
                    "delivery",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tried", to="metadata.delivery"
                    ),
                ),
            ],
            options={
                "ordering": ["number"],
                "constraints": [models.UniqueConstraint(fields=("delivery", "number"), name="delivery_attempt_once")],
            },
        ),
        migrations.CreateModel(
            name="Reference",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("key", models.UUIDField(editable=False, unique=True)),
                ("role_name", models.CharField(blank=True, default="", max_length=100)),
                ("active", models.BooleanField(default=True)),
                (
                    "child",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="references",
                        to="metadata.targetdataset",
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="referenced_by",
                        to="metadata.targetdataset",
                    ),
                ),
            ],
            options={
                "ordering": ["child", "parent", "role_name"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("child", "parent", "role_name"),
                        name="reference_once",
                        violation_error_message="The same reference with the same role exists.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="TargetColumn",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("description", models.TextField(blank=True, default="")),
                ("owner", models.CharField(blank=True, default="", max_length=200)),
                ("tags", models.JSONField(blank=True, default=list, help_text="A list of words.")),
                (
                    "sensitivity",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("public", "Public"),
                            ("internal", "Internal"),
                            ("confidential", "Confidential"),
                            ("restricted", "Restricted"),
                        ],
                        default="",
                        max_length=20,
                    ),
                ),
                ("data_type", models.CharField(max_length=20)),
                ("length", models.PositiveIntegerField(blank=True, null=True)),
                ("precision", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("scale", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("nullable", models.BooleanField(default=True)),
                ("active", models.BooleanField(default=True)),
                ("retired_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "retired_by",
                    models.CharField(
                        blank=True,
                        choices=[("generation", "Generation"), ("person", "A person")],
                        default="",
                        editable=False,
                        max_length=20,
                    ),
                ),
                ("key", models.UUIDField(editable=False, unique=True)),
                ("name", models.CharField(max_length=200)),
                ("former_names", models.JSONField(blank=True, default=list)),
                ("ordinal", models.PositiveIntegerField()),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("business_key", "Business key"),
                            ("attribute", "Attribute"),
                            ("technical", "Technical"),
                        ],
                        default="attribute",
                        max_length=20,
                    ),
                ),
                ("key_ordinal", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("expression", models.TextField(blank=True, default="")),
                ("pii", models.BooleanField(default=False)),
                (
                    "dataset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="columns", to="metadata.targetdataset"
                    ),
                ),
            ],
            options={
                "ordering": ["dataset", "ordinal", "id"],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("dataset"),
                        django.db.models.functions.text.Lower("name"),
                        name="target_column_name_once",
                        violation_error_message="The dataset has another column of this name (case does not part names).",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("active", True), ("key_ordinal__isnull", False)),
                        fields=("dataset", "key_ordinal"),
                        name="target_column_key_ordinal_once",
                        violation_error_message="Another column has this place in the business key.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("key_ordinal__isnull", False), ("role", "business_key")),
                            models.Q(models.Q(("role", "business_key"), _negated=True), ("key_ordinal__isnull", True)),
                            _connector="OR",
                        ),
                        name="target_column_key_ordinal_means_business_key",
                        violation_error_message="A business key column, and no other, has a place in the business key.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("active", True), ("retired_at__isnull", True), ("retired_by", "")),
                            models.Q(
                                ("active", False),
                                ("retired_at__isnull", False),
                                ("retired_by__in", ["generation", "person"]),
                            ),
                            _connector="OR",
                        ),
                        name="target_column_retired_means_inactive",
                        violation_error_message="Retired means: not active, with a time and by whom.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "data_type__in",
                                (
                                    "string",
                                    "integer",
                                    "bigint",
                                    "decimal",
                                    "float",
                                    "boolean",
                                    "date",
                                    "time",
                                    "timestamp",
                                    "binary",
                                    "uuid",
                                    "json",
                                ),
                            )
                        ),
                        name="target_column_data_type_is_known",
                        violation_error_message="A type is one of string, integer, bigint, decimal, float, boolean, date, time, timestamp, binary, uuid, json.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("length__isnull", True),
                            models.Q(("data_type", "string"), ("length__gte", 1)),
                            _connector="OR",
                        ),
                        name="target_column_length_only_on_string",
                        violation_error_message="Only string has a length, and it is at least 1.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                models.Q(("data_type", "decimal"), _negated=True),
                                ("precision__isnull", True),
                                ("scale__isnull", True),
                            ),
                            models.Q(
                                ("data_type", "decimal"),
                                ("precision__gte", 1),
                                ("precision__isnull", False),
                                ("precision__lte", 38),
                                ("scale__gte", 0),
                                ("scale__isnull", False),
                                ("scale__lte", models.F("precision")),
                            ),
                            _connector="OR",
                        ),
                        name="target_column_precision_and_scale_on_decimal",
                        violation_error_message="decimal needs precision 1 to 38 and a scale up to it; other types have neither.",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DatasetInput",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("ordinal", models.PositiveSmallIntegerField(default=1)),
                (
                    "source",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="feeds",
                        to="metadata.sourcedataset",
                    ),
                ),
                (
                    "dataset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="inputs", to="metadata.targetdataset"
                    ),
                ),
                (
                    "upstream",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="feeds",
                        to="metadata.targetdataset",
                    ),
                ),
            ],
            options={
                "ordering": ["dataset", "ordinal", "id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("source__isnull", False), ("upstream__isnull", True)),
                            models.Q(("source__isnull", True), ("upstream__isnull", False)),
                            _connector="OR",
                        ),
                        name="dataset_input_from_exactly_one_place",
                        violation_error_message="An input is a source dataset or a target dataset.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("upstream", models.F("dataset")), _negated=True),
                        name="dataset_input_not_from_itself",
                        violation_error_message="A dataset cannot read itself.",
                    ),
                    models.UniqueConstraint(
                        fields=("dataset", "source"),
                        name="dataset_input_source_once",
                        violation_error_message="The dataset reads this source already.",
                    ),
                    models.UniqueConstraint(
                        fields=("dataset", "upstream"),
                        name="dataset_input_upstream_once",
                        violation_error_message="The dataset reads this dataset already.",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ReferencePair",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "reference",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="pairs", to="metadata.reference"
                    ),
                ),
                (
                    "child_column",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="metadata.targetcolumn"
                    ),
                ),
                (
                    "parent_column",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="metadata.targetcolumn"
                    ),
                ),
            ],
            options={
                "ordering": ["reference", "id"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("reference", "parent_column"),
                        name="reference_pair_parent_once",
                        violation_error_message="A business key column is paired once.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ColumnInput",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("ordinal", models.PositiveSmallIntegerField(default=1)),
                (
                    "dataset_input",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="column_inputs",
                        to="metadata.datasetinput",
                    ),
                ),
                (
                    "source_column",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="feeds",
                        to="metadata.sourcecolumn",
                    ),
                ),
                (
                    "column",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="inputs", to="metadata.targetcolumn"
                    ),
                ),
                (
                    "upstream_column",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="feeds",
                        to="metadata.targetcolumn",
                    ),
                ),
            ],
            options={
                "ordering": ["column", "ordinal", "id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("source_column__isnull", False), ("upstream_column__isnull", True)),
                            models.Q(("source_column__isnull", True), ("upstream_column__isnull", False)),
                            _connector="OR",
                        ),
                        name="column_input_from_exactly_one_place",
                        violation_error_message="An input is a source column or a target column.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("upstream_column", models.F("column")), _negated=True),
                        name="column_input_not_from_itself",
                        violation_error_message="A column cannot read itself.",
                    ),
                    models.UniqueConstraint(
                        fields=("column", "source_column"),
                        name="column_input_source_once",
                        violation_error_message="The column reads this source column already.",
                    ),
                    models.UniqueConstraint(
                        fields=("column", "upstream_column"),
                        name="column_input_upstream_once",
                        violation_error_message="The column reads this column already.",
                    ),
                ],
            },
        ),
    ]
