"""What is updated: the layers a network has, schemes that choose among them, and the published ones."""
