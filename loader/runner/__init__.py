"""Runner: its process, its settings, and the worker that supervises it."""
