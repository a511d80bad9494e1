"""The physical side of an operation: its statements, what each assumes, and what takes it back."""
