"""Endpoints of proposals to change a source's contract, and of checks of sources."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.api.requests import ChangeSerializer, NoParametersSerializer
from elevata.api.resources import ReadOnly, Resource, permitted_to
from loader.api.serializers import RefusalSerializer
from loader.domain.sources.proposal_states import OPEN
from loader.domain.sources.schema_changes import KINDS, SchemaChange
from loader.filtersets import SourceProposalFilter
from loader.models import SourceProposal
from loader.services.sources.checks import check_source
from loader.services.sources.previews import ProposalPreview, preview_proposal
from loader.services.sources.proposals import accept_proposal, dismiss_proposal, open_changes
from metadata.models import SourceDataset

_TAKE = "Ids of changes; `renamed:FORMER>NAME` takes a column that is gone and one that is new as one renamed column."
# Sources are in no schema, so a role for one place is not enough.
_EDITS = permitted_to(Permission.CHANGE_METADATA, on=Place)


class SourceChangeSerializer(serializers.Serializer):
    """Difference of one column between a source and its contract."""

    id = serializers.CharField(help_text="Identifies the change among those of its proposal.")
    kind = serializers.ChoiceField(choices=KINDS)
    name = serializers.CharField(help_text="Name in the source; of a column that is gone, that in the contract.")
    former = serializers.CharField(allow_blank=True, help_text="Name in the contract of a renamed column.")
    before = serializers.CharField(allow_blank=True, help_text="Type in the contract.")
    after = serializers.CharField(allow_blank=True, help_text="Type in the source, if it is known.")
    relation = serializers.CharField(allow_blank=True, help_text="The source's type: wider, narrower, incompatible.")
    score = serializers.FloatField(allow_null=True, help_text="Probability of a rename, from 0 to 1.")
    evidence = serializers.CharField(allow_blank=True, help_text="Of a rename: how many keys have the same value.")


class SourceProposalSerializer(serializers.ModelSerializer):
    status = serializers.ChoiceField(choices=SourceProposal.Status.choices, read_only=True)
    source: Any = serializers.SlugRelatedField(slug_field="key", read_only=True)
    source_name = serializers.CharField(source="source.__str__", read_only=True)
    run = serializers.CharField(source="run.run_id", read_only=True, default=None, allow_null=True)
    decided_by = serializers.CharField(source="decided_by.username", read_only=True, default=None, allow_null=True)
    changes = serializers.SerializerMethodField(help_text="Of an open proposal, those that its contract lacks now.")
    accepted = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = SourceProposal
        fields = (
            "key",
            "status",
            "source",
            "source_name",
            "run",
            "created_at",
            "last_seen_at",
            "changes",
            "accepted",
            "decided_by",
            "decided_at",
            "reason",
        )

    @extend_schema_field(SourceChangeSerializer(many=True))
    def get_changes(self, proposal: SourceProposal) -> Any:
        changes = open_changes(proposal) if proposal.status == OPEN else proposal.schema_changes
        return SourceChangeSerializer(changes, many=True).data


class ChoiceSerializer(ChangeSerializer):
    """Chosen changes of a proposal."""

    take = serializers.ListField(child=serializers.CharField(max_length=1000), help_text=_TAKE)
    split = serializers.ListField(
        child=serializers.CharField(max_length=1000),
        required=False,
        default=list,
        help_text="Ids of renames that are none: then `gone:…` and `new:…` are the ids of two changes.",
    )


class AcceptanceSerializer(ChoiceSerializer):
    """Changes to accept."""

    previewed = serializers.CharField(
        required=False, default="", max_length=64, help_text="Fingerprint of the preview; the effect must be the same."
    )


class OperationSerializer(serializers.Serializer):
    operation = serializers.CharField()
    decision = serializers.CharField()
    message = serializers.CharField(allow_blank=True)


class TargetEffectSerializer(serializers.Serializer):
    dataset = serializers.CharField()
    added = serializers.ListField(child=serializers.CharField())
    retired = serializers.ListField(child=serializers.CharField())
    returned = serializers.ListField(child=serializers.CharField())


class ReaderSerializer(serializers.Serializer):
    dataset = serializers.CharField()
    what = serializers.CharField()
    says = serializers.CharField()


class SourceProposalPreviewSerializer(serializers.Serializer):
    """Effect of accepting the chosen changes."""

    fingerprint = serializers.CharField()
    targets = TargetEffectSerializer(many=True)
    readers = ReaderSerializer(many=True, help_text="Objects that read a column that goes.")
    operations = OperationSerializer(
        many=True, allow_null=True, help_text="Those that the next report has because of the changes."
    )


def _as_json(preview: ProposalPreview) -> dict[str, Any]:
    operations = preview.operations
    return {
        "fingerprint": preview.fingerprint,
        "targets": [
            {"dataset": dataset.name, "added": dataset.added, "retired": dataset.retired, "returned": dataset.returned}
            for dataset in preview.datasets
        ],
        "readers": [{"dataset": str(row.dataset), "what": row.what, "says": row.says} for row in preview.dependents],
        "operations": operations
        if operations is None
        else [{"operation": row.describe(), "decision": row.decision, "message": row.message} for row in operations],
    }


class ProposalViewSet(ReadOnly):
    """Proposals to change the contracts of sources that differ from them."""

    queryset = SourceProposal.objects.none()
    serializer_class = SourceProposalSerializer
    filterset_class = SourceProposalFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"
    writes = _EDITS

    def get_queryset(self) -> QuerySet[SourceProposal]:
        rows = SourceProposal.objects.select_related("source__system", "run", "decided_by")
        return rows.prefetch_related("source__columns")

    @extend_schema(request=ChoiceSerializer, responses=SourceProposalPreviewSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def preview(self, request: Request, key: UUID) -> Response:
        """Return what accepting the chosen changes does; nothing is written."""
        proposal, (choice, _) = self.get_object(), self.given(ChoiceSerializer)
        return Response(_as_json(preview_proposal(proposal=proposal, **choice)))

    @extend_schema(request=AcceptanceSerializer, responses=SourceProposalSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def accept(self, request: Request, key: UUID) -> Response:
        """Make the chosen changes in contract and targets. The next load applies safe changes to tables."""
        proposal, (choice, reason) = self.get_object(), self.given(AcceptanceSerializer)
        accept_proposal(proposal=proposal, reason=reason, **choice)
        return self.answer(self.get_queryset().get(pk=proposal.pk))

    @extend_schema(request=NoParametersSerializer, responses=SourceProposalSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def dismiss(self, request: Request, key: UUID) -> Response:
        """Dismiss the proposal. Loads and schedules do not propose the same changes again."""
        proposal, (_, reason) = self.get_object(), self.given(NoParametersSerializer)
        dismiss_proposal(proposal=proposal, reason=reason)
        return self.answer(self.get_queryset().get(pk=proposal.pk))


class NewSourceCheckSerializer(ChangeSerializer):
    """The source to check."""

    source: Any = serializers.SlugRelatedField(
        slug_field="key", queryset=SourceDataset.objects.select_related("system"), help_text="Key of a source dataset."
    )


class SourceCheckSerializer(serializers.Serializer):
    """Result of a check of a source."""

    source: Any = serializers.CharField()
    key = serializers.UUIDField()
    status = serializers.ChoiceField(choices=("same", "differs", "refused"))
    proposal = serializers.UUIDField(allow_null=True, help_text="Key of the open proposal.")
    changes = SourceChangeSerializer(many=True)
    error = RefusalSerializer(allow_null=True, help_text="Why the source cannot be read.")


class SourceCheckViewSet(Resource, GenericViewSet):
    """Checks of sources: their schema as it is now, compared with their contract."""

    queryset = SourceProposal.objects.none()
    serializer_class = SourceCheckSerializer
    writes = _EDITS

    @extend_schema(request=NewSourceCheckSerializer, responses=SourceCheckSerializer)
    def create(self, request: Request) -> Response:
        """Read a source's schema now. A difference from the contract becomes its open proposal."""
        values, _ = self.given(NewSourceCheckSerializer)
        result = check_source(source=values["source"], renew=True)
        changes: tuple[SchemaChange, ...] = open_changes(result.proposal) if result.proposal is not None else ()
        return Response(result.as_json() | {"changes": SourceChangeSerializer(changes, many=True).data})
