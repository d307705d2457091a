"""The backward pass of a block in groups of channels: the expanded gradient never exists whole."""
