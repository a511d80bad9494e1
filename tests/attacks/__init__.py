"""Attacks on the product, each as somebody would try it: every one of them has to fail."""
