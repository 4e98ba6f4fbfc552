"""The page of a device's forwarding test, and the page that compares devices."""
