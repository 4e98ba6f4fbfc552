"""Why packets of a trial were late or lost: the delay of each packet split by cause (`docs/guides/running.md`)."""
