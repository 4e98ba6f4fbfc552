"""Reads the text of files and options: units, values, tables, and their mistakes; it knows no subject."""
