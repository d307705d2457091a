"""What insitu has to say, each as one data class that prints as text and as JSON. Nothing here computes a model."""
