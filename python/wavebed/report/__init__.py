"""Reports: one self-contained HTML page each, which needs no network and prints well."""
