"""A path with known figures, for tests that compare rates and times with theory."""

RATE = 'rate = "100mbit"\n'
DELAY = 'delay = "20ms"\n'
QUEUE = 'queue = "droptail:500kb"\n'
KNOWN_PATH = f'[path]\n{RATE}{DELAY}{QUEUE}congestion-control = "cubic"\n'
"""Constant 100 Mbit/s, round trip 40 ms, a queue of one bandwidth-delay product (333 packets).

Where cubic leaves slow start is random: HyStart takes acknowledgements that come 5 ms late, or bunched, for a full
path. In Linux it does so with 16 segments at the least, and cubic then grows by a twentieth in each round trip or
faster until its first loss. So it needs at most 62 round trips, 2.5 s, until it fills this path.
"""
