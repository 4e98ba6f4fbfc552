"""A pytest plugin: tests behind an emulated path, each passed, failed or inconclusive.

The fixture ``lab`` is a `pytest_wavebed.laboratory.TestLab`; its hosts are `pytest_wavebed.hosts.TestHost`.
"""
