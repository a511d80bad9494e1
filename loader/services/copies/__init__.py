"""Copies of datasets: requests, manifests, states, repetition after failures."""
