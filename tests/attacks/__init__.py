"""Attacks on the product, one for each way of access; every one has to fail."""
