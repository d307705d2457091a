"""The output in a terminal: aligned tables, and progress on stderr. Nothing here knows what it shows."""
