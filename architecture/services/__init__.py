"""Services that write architecture's tables."""
