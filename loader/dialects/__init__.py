"""Rules of seven SQL dialects: types, names, literals, hashes, and the statements of loads and changes."""
