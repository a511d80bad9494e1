"""Services that write the loader's tables and reach the warehouse."""
