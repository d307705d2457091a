"""The int8 checkpoints of the Tiny Training Engine paper."""
