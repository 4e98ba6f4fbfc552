"""A folder of results: begun, resumed, filled, ended by one owner; its journal, records and metrics; reading it."""
