"""A server whose clock differs: what its agent says of its clock, and its time stamps in the results of irtt.

Both hosts of these tests have the clock of one kernel. So two wrappers shift what comes from the server by one function
of time, and nothing else: one around ssh, in the answers of the agent; one around irtt on the client, in the file that
it writes. The unshifted file is kept beside it: its one-way delays are exact.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from two_hosts import TwoHosts


class Skew(NamedTuple):
    """How far the server's clock is ahead: an offset, a drift, and a step after so many questions."""

    offset_ns: int = 0
    drift_ppm: float = 0.0
    step_ns: int = 0
    step_after: int = 1 << 30


_SKEW = """#!/usr/bin/python3
import json, os, signal, struct, subprocess, sys, threading, time
OFFSET_NS, DRIFT, STEP_NS, STEP_AFTER, ZERO_NS = {offset_ns}, {drift}, {step_ns}, {step_after}, {zero_ns}

def ahead_ns(unix_ns):
    return OFFSET_NS + round(DRIFT * (unix_ns - ZERO_NS))
"""
_SSH = (
    _SKEW
    + """
child = subprocess.Popen({ssh!r}.split() + sys.argv[1:], stdin=0, stdout=subprocess.PIPE)
asked = 0
while len(head := child.stdout.read(8)) == 8:
    sizes = struct.unpack('<II', head)
    header, payload = (child.stdout.read(size) for size in sizes)
    answer = json.loads(header)
    if 'unix_ns' in answer:
        asked += 1
        step_ns = STEP_NS if asked > STEP_AFTER else 0
        answer['unix_ns'] = [each + ahead_ns(each) + step_ns for each in answer['unix_ns']]
        header = json.dumps(answer).encode()
    os.write(1, struct.pack('<II', len(header), len(payload)) + header)
    sys.stdout.buffer.write(payload)
    sys.stdout.buffer.flush()
os.close(1)
sys.exit(child.wait())
"""
)
_IRTT = (
    _SKEW
    + """
child = subprocess.Popen(['/usr/bin/irtt'] + sys.argv[1:])
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda given, frame: None)  # irtt gets it too
status = child.wait()
if '-o' in sys.argv:
    name = sys.argv[sys.argv.index('-o') + 1]
    found = json.load(open(name))
    json.dump(found, open(name.replace('irtt.json', 'true.json'), 'w'))
    for trip in found['round_trips']:
        stamps = trip['timestamps']['server']
        for event, direction, sign in (('receive', 'send', 1), ('send', 'receive', -1)):
            if stamps[event].get('wall') and direction in trip['delay']:
                shift_ns = ahead_ns(stamps[event]['wall'])
                stamps[event]['wall'] += shift_ns
                trip['delay'][direction] += sign * shift_ns
    json.dump(found, open(name, 'w'))
sys.exit(status)
"""
)


@contextmanager
def skewed(hosts: TwoHosts, skew: Skew) -> Iterator[Mapping[str, str]]:
    """Make both wrappers; yield the variables with which wavebed uses them."""
    values = {
        "offset_ns": skew.offset_ns,
        "drift": skew.drift_ppm * 1e-6,
        "step_ns": skew.step_ns,
        "step_after": skew.step_after,
        "zero_ns": time.time_ns(),
        "ssh": hosts.variables["WAVEBED_SSH"],
    }
    # A folder of the system, which programs of a trial see: they have a /tmp of their own.
    with tempfile.TemporaryDirectory(prefix="wavebed-test-", dir="/usr/local/lib") as folder:
        programs = Path(folder)
        programs.chmod(0o755)
        for name, text in (("ssh-skewed", _SSH), ("irtt", _IRTT)):
            (programs / name).write_text(text.format(**values))
            (programs / name).chmod(0o755)
        path = f"{programs}:{hosts.variables['PATH']}"
        yield {**hosts.variables, "WAVEBED_SSH": str(programs / "ssh-skewed"), "PATH": path}
