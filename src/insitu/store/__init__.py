"""Samples kept on the device, and learning from them a little at a time."""
