"""Keys, tokens, and what they allow."""
