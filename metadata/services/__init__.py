"""The only code that writes metadata: keyword-only functions, one transaction each."""
