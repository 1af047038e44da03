"""Other people's servers, for comparison; each runs in a virtual environment of its own."""
