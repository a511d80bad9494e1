"""Pages of sources: systems, guided path, imports and changes at the source."""
