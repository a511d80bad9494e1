"""Rule of the environment for new names that most engines need quotes for (``ELEVATA_QUOTED_NAMES``).

Users are asked about the names that they type. Names that follow from others (of generated columns, and of raw columns,
which are the delivered ones) are only found by the health check.
"""

from django.conf import settings

from elevata.core.errors import MetadataError
from metadata.domain.quoted_names import ALLOW, ASK, REFUSE, quoting_reason
from metadata.models import TargetColumn, TargetDataset, TargetSchema


def refuse_quoted_name(row: TargetDataset | TargetColumn, *, accepted: bool, field: str = "name") -> None:
    """Refuse a new name that needs quotes, unless the rule allows it, or lets users accept it and they did."""
    reason = _reason(row)
    if reason and (settings.QUOTED_NAMES == REFUSE or not accepted):
        way_on = "choose another" if settings.QUOTED_NAMES == REFUSE else "confirm it, or choose another"
        raise MetadataError(
            "quoted_name", f"{row.name!r} needs quotes in most engines, because {reason}; {way_on}", field
        )


def quoted_name_finding(row: TargetDataset | TargetColumn) -> str:
    """Return the finding of an import about a new name that users would be asked about; empty for none."""
    reason = _reason(row) if settings.QUOTED_NAMES == ASK else ""
    return f"{row.name!r} needs quotes in most engines, because {reason}" if reason else ""


def _reason(row: TargetDataset | TargetColumn) -> str:
    dataset = row.dataset if isinstance(row, TargetColumn) else row
    if settings.QUOTED_NAMES == ALLOW or dataset.schema.layer == TargetSchema.Layer.RAW:
        return ""
    return quoting_reason(row.name)
