"""What is kept: the audit, capability counters, the journal, lockouts, the last good bench file."""
