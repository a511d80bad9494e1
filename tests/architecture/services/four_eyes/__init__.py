"""The four-eyes promise, modelled: facts of metadata, edits of them, a warehouse in memory, and the judge."""
