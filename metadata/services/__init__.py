"""Services: the only code that writes metadata. Functions are keyword-only, with one transaction each."""
