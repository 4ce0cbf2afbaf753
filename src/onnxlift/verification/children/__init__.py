"""Child processes with limits: how they start, how they are watched, and how they end."""
