"""API of contracts of datasets."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from architecture.selectors.data_contracts import Contract, contracts_of
from architecture.services.environments import current_environment
from elevata.api.resources import ReadOnly
from metadata.api.exposures import ExposureSerializer
from metadata.models import TargetDataset


class PromisedColumnSerializer(serializers.Serializer):
    name = serializers.CharField()
    type = serializers.CharField()
    nullable = serializers.BooleanField()
    is_key = serializers.BooleanField()


class PromisedCheckSerializer(serializers.Serializer):
    key = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.CharField()
    severity = serializers.CharField()
    arguments = serializers.DictField()


class PromiseSerializer(serializers.Serializer):
    """Promise of a contract; ``version`` is empty until an execution puts it in force."""

    version = serializers.CharField(allow_blank=True)
    dataset = serializers.CharField()
    columns = PromisedColumnSerializer(many=True)
    checks = PromisedCheckSerializer(many=True)


class ContractChangeSerializer(serializers.Serializer):
    """Pending change of a contract, which the next change report contains."""

    breaks = serializers.BooleanField()
    version = serializers.CharField(source="change.to", allow_blank=True)
    message = serializers.CharField(source="change.message")


class ContractSerializer(serializers.ModelSerializer):
    """Contract of a dataset: in force in this environment, and as described in the metadata."""

    name = serializers.CharField(source="__str__", read_only=True)
    in_force = serializers.SerializerMethodField()
    described = serializers.SerializerMethodField()
    change = serializers.SerializerMethodField()
    exposures = ExposureSerializer(many=True, read_only=True)

    class Meta:
        model = TargetDataset
        fields = ("key", "name", "owner", "description", "in_force", "described", "change", "exposures")

    def _contract(self, row: TargetDataset) -> Contract:
        return self.context["contracts"][str(row.key)]

    @extend_schema_field(PromiseSerializer(allow_null=True))
    def get_in_force(self, row: TargetDataset) -> dict[str, Any] | None:
        contract = self._contract(row).in_force
        return PromiseSerializer(contract).data if contract else None

    @extend_schema_field(PromiseSerializer(allow_null=True))
    def get_described(self, row: TargetDataset) -> dict[str, Any] | None:
        contract = self._contract(row).described
        return PromiseSerializer(contract).data if contract else None

    @extend_schema_field(ContractChangeSerializer(allow_null=True))
    def get_change(self, row: TargetDataset) -> dict[str, Any] | None:
        contract = self._contract(row)
        return ContractChangeSerializer(contract).data if contract.change else None


class ContractViewSet(ReadOnly):
    """Datasets that are declared a contract."""

    queryset = TargetDataset.objects.none()
    serializer_class = ContractSerializer
    lookup_field = "key"
    lookup_value_converter = "uuid"
    contracts: dict[str, Contract]

    def get_queryset(self) -> QuerySet[TargetDataset]:
        rows = TargetDataset.objects.filter(contract=True).select_related("schema")
        return rows.prefetch_related("exposures__dataset__schema").order_by("schema__name", "name", "pk")

    def paginate_queryset(self, queryset: Any) -> list[Any] | None:
        rows = super().paginate_queryset(queryset)
        self.contracts = contracts_of(rows or (), environment=current_environment())
        return rows

    def get_object(self) -> TargetDataset:
        row = super().get_object()
        self.contracts = contracts_of([row], environment=current_environment())
        return row

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "contracts": getattr(self, "contracts", {})}
