"""The transports of the simulated bench, from the instrument's side."""
