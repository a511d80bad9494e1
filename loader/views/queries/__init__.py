"""Pages of SQL queries and of model trials."""
