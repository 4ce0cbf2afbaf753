"""Who exported a model, and what the exporter tells of its modules and parameters."""
