"""Statistics of trials: intervals that say how little is known."""
