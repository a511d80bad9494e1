"""Planning: from two states to the ordered operations of a report."""
