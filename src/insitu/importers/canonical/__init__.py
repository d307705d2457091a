"""Clean-up after an import: the same network gives the same graph, whatever the format."""
