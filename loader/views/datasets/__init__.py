"""Pages of datasets: rows, history, policy and quality."""
