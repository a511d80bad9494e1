"""Tables of architecture control: environments with their state, reports, approvals, executions, records, findings."""

from architecture.models.execution import Execution, ExecutionEvent, ExecutionOperation, ExecutionRecord
from architecture.models.health import HealthFinding
from architecture.models.policy import PolicyProposal, PolicyRecord
from architecture.models.report import Approval, ChangeReport, DryRun, Preview, Refresh
from architecture.models.state import AppliedDataset, Environment, KeptHistory, Lease, Observation

__all__ = [
    "AppliedDataset",
    "Approval",
    "ChangeReport",
    "Environment",
    "Execution",
    "ExecutionEvent",
    "ExecutionOperation",
    "ExecutionRecord",
    "HealthFinding",
    "KeptHistory",
    "Lease",
    "Observation",
    "PolicyProposal",
    "PolicyRecord",
    "Preview",
    "Refresh",
    "DryRun",
]
