"""What can be asked (Action), by whom (Caller), and what came of it (Outcome). Pure."""
