"""Fit a channel to measured walks, and judge it on walks that were held out."""
