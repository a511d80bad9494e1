"""Quality checks: statements, band of row counts, results."""
