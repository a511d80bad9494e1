"""What changes architecture's tables: environments, executions and applied state."""

from architecture.services.environments import current_environment
from architecture.services.executions import (
    begin_execution,
    finish_execution,
    operation_finished,
    operation_started,
)

__all__ = [
    "begin_execution",
    "current_environment",
    "finish_execution",
    "operation_finished",
    "operation_started",
]
