"""Events, who is told of them, and what is sent to whom."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("metadata", "0007_identity"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
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
            ],
            options={
                "ordering": ["-id"],
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
            ],
            options={
                "ordering": ["number"],
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
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("read_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="NoticeChoice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("listed", models.JSONField(default=list)),
                ("emailed", models.JSONField(default=list)),
            ],
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
        migrations.AddField(
            model_name="delivery",
            name="person",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="deliveryattempt",
            name="delivery",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="tried", to="metadata.delivery"
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="event",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="metadata.event"
            ),
        ),
        migrations.AddField(
            model_name="notice",
            name="event",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="notices", to="metadata.event"
            ),
        ),
        migrations.AddField(
            model_name="notice",
            name="person",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="noticechoice",
            name="person",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="webhook",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="metadata.webhook"
            ),
        ),
        migrations.AddConstraint(
            model_name="deliveryattempt",
            constraint=models.UniqueConstraint(fields=("delivery", "number"), name="delivery_attempt_once"),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(fields=["person", "-id"], name="notice_of_person"),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(condition=models.Q(("read_at__isnull", True)), fields=["person"], name="notice_unread"),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.UniqueConstraint(fields=("event", "person"), name="notice_once"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["status", "next_at"], name="delivery_due"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("person__isnull", True), ("webhook__isnull", False)),
                    models.Q(("person__isnull", False), ("webhook__isnull", True)),
                    _connector="OR",
                ),
                name="delivery_to_one",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(fields=("event", "webhook"), name="delivery_once_per_webhook"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(fields=("event", "person"), name="delivery_once_per_person"),
        ),
    ]
