"""Video content made here: a ladder of representations, each segment of exactly its nominal size, and the MPD."""
