"""Long work that lives in the daemon."""
