"""The relay route: a public front and the edge's end of it, over NATS."""
