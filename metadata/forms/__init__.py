"""Forms for metadata: they keep the typed values, report errors by field, and carry the version that was read."""
