"""Scenes: what stands where, and what moves."""
