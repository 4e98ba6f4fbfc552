"""Small-packet forwarding: the test of a router between two ports of this tester."""
