"""Results: how they are stored, and how they are read again."""
