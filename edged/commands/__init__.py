"""The one command path: authorize, resolve, hold, validate, record, run, record."""
