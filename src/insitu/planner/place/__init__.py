"""Where bytes lie: buffers in the arena, and rooms and line buffers inside a loop. Nothing here chooses an order."""
