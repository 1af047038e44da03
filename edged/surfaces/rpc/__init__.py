"""The RPC interface: JSON-RPC 2.0 on loopback for the CLI and for scripts."""
