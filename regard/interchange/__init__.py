"""To and from the layouts of other programs."""
