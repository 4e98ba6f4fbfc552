"""Real hosts as a laboratory: an agent on each, started over ssh or on this machine."""
