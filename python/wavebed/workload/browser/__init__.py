"""A real browser on a host of the laboratory.

Playwright and Chromium run inside the laboratory, in a process of their own (`agent`), so that they end with it;
`remote` talks to that process. Clocks: the agent and Chromium's traces use CLOCK_MONOTONIC, as the laboratory does.
"""
