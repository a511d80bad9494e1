"""Steps: statements of an operation, their preconditions and their inverses."""
