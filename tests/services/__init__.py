"""The real servers and the real browser that tests run against."""
