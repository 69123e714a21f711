"""Text, JSON and figures: the only place that rounds, prints or draws."""
