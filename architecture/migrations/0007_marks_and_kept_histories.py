"""Marks in the audit chain in place of times, and the logic that kept histories last followed."""

from bisect import bisect_right

from django.db import migrations, models


def mark(apps, schema_editor):
    """Set the last mark before the first entry that is later than the time; entries without a link have none."""

    def rows(app, name):
        return apps.get_model(app, name).objects.using(schema_editor.connection.alias).order_by()

    at = dict(rows("metadata", "ChangeLogEntry").values_list("pk", "at").iterator())
    links = rows("metadata", "ChainLink").filter(kind="change").values_list("subject_id", "sequence").iterator()
    linked = sorted((at[pk], sequence) for pk, sequence in links if pk in at)
    end = rows("metadata", "ChainLink").aggregate(last=models.Max("sequence"))["last"] or 0
    times, lowest = [time for time, _ in linked], [end + 1]
    for _, sequence in reversed(linked):
        lowest.append(min(sequence, lowest[-1]))
    lowest.reverse()
    for name, field in (("AppliedDataset", "described_at"), ("ChangeReport", "created_at")):
        for time in rows("architecture", name).values_list(field, flat=True).distinct():
            through = lowest[bisect_right(times, time)] - 1
            rows("architecture", name).filter(**{field: time}).update(through=through)
    # This time stood for a dataset that was never carried out as a whole.
    rows("architecture", "AppliedDataset").filter(described_at__year=1970).update(through=0)


class Migration(migrations.Migration):
    dependencies = [("architecture", "0006_policy_proposals"), ("metadata", "0010_manage_webhooks")]

    operations = [
        migrations.AddField("applieddataset", "through", models.BigIntegerField(default=0)),
        migrations.AddField("changereport", "through", models.BigIntegerField(default=0)),
        migrations.RunPython(mark, migrations.RunPython.noop),
        migrations.RemoveField("applieddataset", "described_at"),
        migrations.CreateModel(
            name="KeptHistory",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("history_key", models.UUIDField()),
                ("state", models.JSONField()),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=models.CASCADE, related_name="kept_histories", to="architecture.environment"
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
    ]
