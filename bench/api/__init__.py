"""API benchmark with requests at fixed times, independent of earlier answers (open loop)."""
