"""Campaigns: factors crossed over a scenario, repeated in blocks, resumed, stopped by a rule, and compared."""
