"""The channel: from a scene to what a link can carry, over time."""
