"""What changes the loader's tables, and the only way to the warehouse."""
