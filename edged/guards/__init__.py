"""What the owner's guards decide, as pure values: no sockets, threads or clocks of their own."""
