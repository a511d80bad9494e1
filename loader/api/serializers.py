"""Serializers of load runs, maintenance records and refusals."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from elevata.accounts.actors import current_actor
from loader.models import DatasetRun, LoadRun, MaintenanceRecord, RunEvent
from loader.selectors.readable_windows import with_readable_windows
from loader.services.maintenance.records import record_artifact
from loader.services.reads.read_permissions import readable_error
from metadata.domain.scope import REQUESTED


class ScopeSerializer(serializers.Serializer):
    kind = serializers.ChoiceField(choices=REQUESTED)
    name = serializers.CharField(allow_blank=True)
    target_only = serializers.BooleanField()
    exclude = serializers.CharField(required=False, help_text="Words of datasets that a selection leaves out.")


class FaultSerializer(serializers.Serializer):
    """One class of faults in the rows of a delivery; empty fields are left out."""

    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField(required=False)
    file = serializers.CharField(required=False)
    row = serializers.IntegerField(required=False)
    column = serializers.CharField(required=False)
    count = serializers.IntegerField(required=False)
    samples = serializers.ListField(child=serializers.CharField(), required=False)


class RefusalSerializer(FaultSerializer):
    """Refusal of a request or a run; empty fields are left out."""

    faults = FaultSerializer(
        many=True,
        required=False,
        help_text="All classes of faults in the rows of a delivery; the first is the refusal.",
    )


# Lists refer to the schemas of states and kinds that the serializer of one run defines.
@extend_schema_field({"$ref": "#/components/schemas/LoadRunStatusEnum"})
class SameStatusField(serializers.CharField):
    pass


@extend_schema_field({"$ref": "#/components/schemas/LoadRunKindEnum"})
class SameKindField(serializers.CharField):
    pass


class LoadRunListSerializer(serializers.ModelSerializer):
    kind = SameKindField(read_only=True)
    status = SameStatusField(read_only=True)
    environment = serializers.CharField(source="environment.name", read_only=True)
    requested_by = serializers.CharField(source="requested_by.username", read_only=True, default=None, allow_null=True)
    who = serializers.CharField(read_only=True, help_text="Requesting user; system if none.")
    scope = serializers.SerializerMethodField()
    seconds = serializers.FloatField(read_only=True, allow_null=True)
    error = serializers.SerializerMethodField()
    dataset_count = serializers.IntegerField(read_only=True)
    finished_count = serializers.IntegerField(read_only=True)
    failed_count = serializers.IntegerField(read_only=True)
    skipped_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = LoadRun
        fields: tuple[str, ...] = (
            "run_id",
            "kind",
            "status",
            "environment",
            "scope",
            "load_timestamp",
            "allow_empty",
            "allow_deletes",
            "full",
            "since",
            "requested_by",
            "who",
            "reason",
            "requested_at",
            "started_at",
            "finished_at",
            "seconds",
            "attempt",
            "phase",
            "error",
            "dataset_count",
            "finished_count",
            "failed_count",
            "skipped_count",
        )

    @extend_schema_field(ScopeSerializer)
    def get_scope(self, run: LoadRun) -> dict:
        return run.scope

    @extend_schema_field(RefusalSerializer(allow_null=True))
    def get_error(self, run: LoadRun) -> dict | None:
        return run.error


class DatasetRunSerializer(serializers.ModelSerializer):
    reverted_by = serializers.CharField(source="reverted_by.run_id", read_only=True, default=None, allow_null=True)
    error = serializers.SerializerMethodField()
    faults = serializers.SerializerMethodField(help_text="Refusal that names the quarantined rows of the delivery.")
    counts = serializers.DictField(child=serializers.IntegerField(), read_only=True)
    window = serializers.DictField(
        child=serializers.DictField(child=serializers.CharField(), allow_null=True),
        read_only=True,
        help_text="Watermark values between which a source was read: from (null: whole) and to, by column; ahead: "
        "numbers of rows that are ahead of the limits, so that the mark stays below them.",
    )

    class Meta:
        model = DatasetRun
        fields = (
            "dataset_key",
            "qualified_name",
            "kind",
            "ordinal",
            "depends_on",
            "sequence",
            "status",
            "phase",
            "counts",
            "window",
            "drift",
            "warnings",
            "error",
            "faults",
            "skipped_because",
            "unchanged_since",
            "reverted_by",
            "table_version_before",
            "table_version_after",
            "started_at",
            "finished_at",
            "seconds",
        )

    @extend_schema_field(RefusalSerializer(allow_null=True))
    def get_error(self, row: DatasetRun) -> dict | None:
        return readable_error(current_actor().user, row.error, row.qualified_name)

    @extend_schema_field(RefusalSerializer(allow_null=True))
    def get_faults(self, row: DatasetRun) -> dict | None:
        return readable_error(current_actor().user, row.faults, row.qualified_name)


class LoadRunSerializer(LoadRunListSerializer):
    status = serializers.ChoiceField(  # type: ignore[assignment]  # it replaces the field of the base
        choices=LoadRun.STATUSES, read_only=True
    )
    kind = serializers.ChoiceField(  # type: ignore[assignment]  # it replaces the field of the base
        choices=LoadRun.Kind.choices, read_only=True
    )
    details = serializers.DictField(
        read_only=True, help_text="What was asked, the Delta versions of the tables, and how commits were made."
    )
    datasets = serializers.SerializerMethodField()

    class Meta(LoadRunListSerializer.Meta):
        fields = (*LoadRunListSerializer.Meta.fields, "details", "datasets")

    @extend_schema_field(DatasetRunSerializer(many=True))
    def get_datasets(self, run: LoadRun) -> list[dict[str, Any]]:
        rows = with_readable_windows(run, run.datasets.all(), current_actor().user)
        return list(DatasetRunSerializer(rows, many=True, context=self.context).data)


class RunEventSerializer(serializers.ModelSerializer):
    class Meta:
        model = RunEvent
        fields = ("id", "at", "attempt", "level", "dataset_name", "message")


class MaintenanceRecordListSerializer(serializers.ModelSerializer):
    run = serializers.CharField(source="run.run_id", read_only=True)
    kind = SameKindField(source="run.kind", read_only=True)
    environment = serializers.CharField(source="document.environment", read_only=True)
    who = serializers.SerializerMethodField(help_text="Requesting user of the attempt.")
    reason = serializers.CharField(source="document.reason", read_only=True)

    class Meta:
        model = MaintenanceRecord
        fields: tuple[str, ...] = (
            "record_id",
            "run",
            "kind",
            "attempt",
            "environment",
            "who",
            "reason",
            "outcome",
            "digest",
            "created_at",
        )

    def get_who(self, record: MaintenanceRecord) -> str:
        return record.document["repeated_by"] or record.document["requested_by"]


class MaintenanceRecordSerializer(MaintenanceRecordListSerializer):
    """A record with the artifact that ``manage.py verify_artifact`` takes."""

    artifact = serializers.SerializerMethodField()

    class Meta(MaintenanceRecordListSerializer.Meta):
        fields = (*MaintenanceRecordListSerializer.Meta.fields, "artifact")

    def get_artifact(self, record: MaintenanceRecord) -> dict[str, Any]:
        return record_artifact(record)
