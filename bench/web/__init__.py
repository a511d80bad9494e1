"""Response times of the web app over a large generated control database, seeded and valid."""
