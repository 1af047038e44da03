"""SDK wrappers: vendor code, each in a worker process of its own, offered as typed tools."""
