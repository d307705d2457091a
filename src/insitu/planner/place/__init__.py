"""Places of bytes: one placer, for the arena and for the inside of loops. Nothing here chooses an order of nodes."""
