"""Engines that are measured: the product, the yardstick and its peers."""
