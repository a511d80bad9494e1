"""Models: datasets that are defined by one SELECT over other datasets."""

from metadata.domain.models.binding import bind_select, reads_of, relations_of, versions_of
from metadata.domain.models.statement import ModelProblem

__all__ = ["ModelProblem", "bind_select", "reads_of", "relations_of", "versions_of"]
