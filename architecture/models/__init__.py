"""Tables of architecture control: environments, applied state, executions."""

from architecture.models.execution import Execution, ExecutionOperation
from architecture.models.state import AppliedTable, Environment

__all__ = ["AppliedTable", "Environment", "Execution", "ExecutionOperation"]
