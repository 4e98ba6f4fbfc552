"""The four studies run again, beside their published figures."""
