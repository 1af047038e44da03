"""What is kept in SQLite: the audit, capability counters, the journal and lockouts."""
