"""Published names of the warehouse, and their definitions in other engines."""
