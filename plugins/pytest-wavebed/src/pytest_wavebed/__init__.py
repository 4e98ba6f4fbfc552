"""A pytest plugin: tests behind an emulated path, each passed, failed or inconclusive."""

from pytest_wavebed.hosts import Call, TestHost
from pytest_wavebed.laboratory import TestLab

__all__ = ["Call", "TestHost", "TestLab"]
