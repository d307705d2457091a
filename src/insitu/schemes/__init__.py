"""What is updated: the layers of a network, schemes that choose among them, and the published schemes."""
