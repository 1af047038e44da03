"""What a whole test run shares, its controller and its workers; tests find theirs in tests/."""

pytest_plugins = ["tests.bench.prepared"]
