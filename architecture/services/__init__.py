"""Services that write architecture's tables.

Environments, reports, approvals, previews, executions, leases, records.
"""

from architecture.services.states.environments import current_environment

__all__ = ["current_environment"]
