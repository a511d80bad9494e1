"""From two states to the operations of a report, in an order that works."""
