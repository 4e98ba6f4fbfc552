"""Studies done again."""
