"""Model of the four-eyes guarantee: facts of metadata, edits, an in-memory warehouse, and the judge."""
