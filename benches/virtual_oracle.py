"""Did a change of the program change a trial? A set of trials in virtual time, recorded before it, tells.

Usage: python benches/virtual_oracle.py record FOLDER [--only NAME]…
       python benches/virtual_oracle.py compare FOLDER [--only NAME]… [--save FILE]

`record` runs the set and keeps its folders. `compare` runs it again and compares each trial with the kept one.

- Each stage of a link, each queue and each radio has a load of datagrams at fixed moments, whatever happens to them.
  Segments, drops by their reason, marks and blocks must be as many as before. The table says how far packets moved: a
  program that reads the clock once more moves all later packets by the cost of that, and one that misses a slot of a
  radio by it waits for the next.
- Each workload and each remedy answers to what happens, so a microsecond can become another loss. Its verdict must be
  the same; the largest difference of a metric is told.

In these trials computing and entries into the kernel take no time (`processor = "infinite"`). Needs the guest kernel,
no root; some 5 minutes each.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from run import machine

import wavebed
from wavebed.result.identity import digests

MOST_US = 20.0
_TIMES = ("entered_ns", "dequeued_ns", "sent_ns", "released_ns", "delivered_ns", "dropped_ns", "written_ns")
_BULK = '[[workload]]\nkind = "bulk"\nduration = "2s"\n'
_PACED = Path(__file__).parent / "check_programs" / "paced.py"
_WIRED = '[[path.hop]]\nname = "internet"\nkind = "wired"\ndelay = "8ms"\n'


def _udp(down_mbit: float, up_mbit: float = 0) -> str:
    program = f'"{sys.executable}", "{_PACED}"'
    return (
        '[[workload]]\nkind = "command"\nparser = "key-value"\nconfined = false\nlimit = "20s"\n'
        f'run = [{program}, "client", "{{server}}", "{{port}}", "{down_mbit}", "{up_mbit}"]\n'
        f'server-run = [{program}, "server", "{{port}}"]\n'
    )


def _radio(keys: str, path: str = "") -> str:
    return f'[path]\npacket-log = true\n{path}\n{_WIRED}[[path.hop]]\nname = "radio"\nkind = "radio"\n{keys}\n'


def _link(keys: str) -> str:
    return f"[path]\npacket-log = true\n{keys}\n"


def _remedy(host: str, remedy: str) -> str:
    edge = '[path.edge]\nafter = "internet"\n' + (f"remedy = {remedy}\n" if host == "edge" else "")
    client = f"[path.client]\nremedy = {remedy}\n" if host == "client" else ""
    return _radio('scene = "kau-e5g-1"') + edge + client + _BULK


STAGES = {
    "rate and droptail in bytes": _link('rate = "50mbit"\ndelay = "10ms"\nqueue = "droptail:200kb"') + _udp(60, 60),
    "token bucket and drophead": _link(
        'rate = { token-bucket = "40mbit", burst = "64kb" }\ndelay = "5ms"\nqueue = "drophead:100p"'
    )
    + _udp(45),
    "jitter, loss, duplicates, reordering, corruption": _link(
        'rate = "50mbit"\ndelay = "10ms"\njitter = "2ms"\nloss = "1%"\nduplicate = "2%"\n'
        'reorder = { probability = "2%", delay = "1ms" }\ncorrupt = "1%"'
    )
    + _udp(30),
    "shaped delay and bursty loss at the entry": _link(
        'rate = "50mbit"\ndelay = { distribution = "normal", mean = "8ms", spread = "1ms", correlation = "25%" }\n'
        'loss = { model = "gilbert-elliott", p = "1%", r = "20%" }\nloss-at = "entry"'
    )
    + _udp(30),
    "four-state loss and a limit of the delay": _link(
        'rate = "20mbit"\ndelay = "10ms"\ndelay-limit = "10p"\n'
        'loss = { model = "four-state", p13 = "2%", p31 = "30%", p23 = "1%", p32 = "10%", p14 = "0.1%" }'
    )
    + _udp(15),
    "CoDel": _link('rate = "50mbit"\ndelay = "10ms"\nqueue = "codel"') + _udp(60),
    "FQ-CoDel": _link('rate = "50mbit"\ndelay = "10ms"\nqueue = "fq_codel"') + _udp(60),
    "DualPI2": _link('rate = "50mbit"\ndelay = "10ms"\nqueue = "dualpi2"') + _udp(60),
    "infinite queue, sampled rate, each packet alone": _link(
        'trace = "{patterns}/kau-e5g-1.csv"\nrate-mode = "sampled"\nqueue = "infinite"\ndelay = "5ms"\ncoalesce = "off"'
    )
    + _udp(100),
    "trace with outages that drop": _link(
        'trace = "{patterns}/kau-e5g-4.csv"\noutage = "drop"\nstart-at = "0s..20s"\ndelay = "5ms"\nseed = 3'
    )
    + _udp(100),
    "802.11ad": _radio('radio = "802.11ad"\ndown-rate = "800mbit"\nup-rate = "40mbit"') + _udp(30, 30),
    "LTE": _radio('radio = "lte"\ndown-rate = "60mbit"\nup-rate = "20mbit"') + _udp(18, 18),
    "NR, 30 kHz": _radio('radio = { preset = "nr-30khz", bler = "10%" }\ndown-rate = "200mbit"\nup-rate = "40mbit"')
    + _udp(30, 30),
    "NR, 120 kHz, sleep, release, load, limit of the UE": _radio(
        'radio = { preset = "nr-120khz", drx = "on", rrc = "on", load = { mean = "30%" } }\ndown-rate = "400mbit"\n'
        'up-rate = "40mbit"\nue-limit = { packets-per-second = 5000 }'
    )
    + _udp(80),
    "mmWave scene": _radio('scene = "kau-e5g-1"\nstart-at = "0s..20s"') + _udp(200),
    "street canyon, upwards": _radio('scene = "street-canyon-bus"') + _udp(0, 20),
    "phone with its own scene": _radio('scene = "bbr-5g-phone-mobile"') + _udp(200),
}
WORKLOADS = {
    "CUBIC": _radio('scene = "kau-e5g-1"') + _BULK,
    "DCTCP and marks of CoDel": _link(
        'rate = "50mbit"\ndelay = "10ms"\nqueue = { kind = "codel", ecn = true }\ncongestion-control = "dctcp"'
    )
    + _BULK,
    "BBR, upwards": _radio('scene = "street-canyon-bus"', 'congestion-control = "bbr"') + _BULK + 'direction = "up"\n',
    "ping under load": _link('rate = "50mbit"\ndelay = "10ms"')
    + '[[workload]]\nkind = "latency"\nprobe = "both"\ninterval = "5ms"\n'
    + _BULK
    + 'start = "500ms"\n',
    "second radio": _radio('scene = "loop-mmwave"')
    + '[path.second-radio]\nrate = "50mbit"\ndelay = "25ms"\n[path.client]\nremedy = { kind = "mptcp" }\n'
    + _BULK,
    "splitter": _remedy("edge", '{ kind = "splitter", down = "bbr" }'),
    "SYN remedy": _remedy("client", '{ kind = "syn" }'),
    "tunnel": _remedy("edge", '{ kind = "tunnel", peer = "client" }'),
    "download, HTTP/1.1": _radio('scene = "kau-e5g-1"') + '[[workload]]\nkind = "download"\nsize = "4mb"\n',
    "download, HTTP/2, with a resolver": _radio('scene = "kau-e5g-1"')
    + '[[workload]]\nkind = "download"\nsize = "4mb"\nprotocol = "h2"\nnames = "resolver"\n',
    "voice": _radio('scene = "kau-e5g-1"') + '[[workload]]\nkind = "voice"\nduration = "2s"\n' + _BULK,
    "record": _radio('scene = "kau-e5g-1"') + '[[workload]]\nkind = "record"\nduration = "4s"\nfill = "500ms"\n',
    "command": _link('rate = "20mbit"\ndelay = "10ms"')
    + '[[workload]]\nkind = "command"\nrun = ["iperf3", "-c", "{server}", "-p", "{port}", "-t", "1", "-J"]\n'
    'server-run = ["iperf3", "-s", "-1", "-p", "{port}"]\nparser = "iperf3"\nlimit = "20s"\n',
    "page, HTTP/2": _radio('scene = "kau-e5g-1"') + '[[workload]]\nkind = "web"\nsite = "google"\nlimit = "20s"\n',
    "page, HTTP/3": _radio('scene = "kau-e5g-1"')
    + '[[workload]]\nkind = "web"\nsite = "google"\nprotocol = "h3"\nlimit = "20s"\n',
    "video": _radio('scene = "kau-e5g-1"') + '[[workload]]\nkind = "video"\nduration = "6s"\nlimit = "30s"\n',
    "call": _radio('scene = "kau-e5g-1"') + '[[workload]]\nkind = "call"\nduration = "3s"\n',
}


TRIALS = STAGES | WORKLOADS


def run(name: str, folder: Path) -> float:
    """Run a trial into a folder; return the seconds that it took."""
    scenario = folder.with_suffix(".toml")
    patterns = Path(wavebed.__file__).parent / "scenarios" / "patterns"
    head = f'title = "{name}"\n[lab]\ntime = "virtual"\nprocessor = "infinite"\n'
    scenario.write_text(head + TRIALS[name].replace("{patterns}", str(patterns)))
    argv = [sys.executable, "-m", "wavebed", "run", str(scenario), "--trials", "1", "--virtual-time", "-o", str(folder)]
    began = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    return time.monotonic() - began


def trial_of(folder: Path) -> Path:
    """Return the folder of the only trial."""
    (trial,) = (folder / "trials").iterdir()
    return trial


def counters(trial: Path) -> dict[str, int]:
    """Return the sums of the counters of each link: segments and blocks."""
    table = pq.read_table(trial / "series" / "links.parquet")
    names = [each for each in table.column_names if each.endswith(("_segments", "blocks_sent", "blocks_failed"))]
    rows = table.group_by("link").aggregate([(each, "sum") for each in names]).to_pylist()
    return {f"{row['link']} {each}": row[f"{each}_sum"] for row in rows for each in names}


def metrics(folder: Path) -> dict[str, float]:
    """Return the metrics of all workloads that have a value."""
    rows = wavebed.load(folder).metrics.itertuples()
    return {f"{row.workload}: {row.name}": row.value for row in rows if not math.isnan(row.value)}


def compared(before: Path, after: Path) -> dict[str, Any]:
    """Return what differs between two runs of a trial."""
    old, new = trial_of(before), trial_of(after)
    there, here = counters(old), counters(new)
    one, other = (pq.read_table(each / "series" / "packets.parquet") for each in (old, new))
    found: dict[str, Any] = {
        "identical": digests(old) == digests(new),
        "verdicts": [wavebed.load(each).record.trials[0].verdict for each in (before, after)],
        "counters": {
            key: [there.get(key), here.get(key)] for key in {*there, *here} if there.get(key) != here.get(key)
        },
        "packets": [one.num_rows, other.num_rows],
    }
    if one.num_rows == other.num_rows:
        apart = [pc.fill_null(pc.abs(pc.subtract(one[each], other[each])), 0).to_numpy() for each in _TIMES]
        most_us = np.max(apart, axis=0) / 1000
        found["moved_us"] = {"p50": float(np.median(most_us)), "most": float(most_us.max())}
        found["moved_far"] = float((most_us > MOST_US).mean())
    then, now = metrics(before), metrics(after)
    shares = {key: abs(now[key] - then[key]) / abs(then[key]) for key in then if now.get(key) is not None and then[key]}
    found["metrics"] = dict(sorted(((key, share) for key, share in shares.items() if share), key=lambda each: -each[1]))
    return found


def is_same(name: str, found: dict[str, Any]) -> bool:
    """Whether the change did what it may."""
    if name in WORKLOADS:
        return found["verdicts"][0] == found["verdicts"][1]
    return not found["counters"]


def row(name: str, found: dict[str, Any]) -> str:
    """Return a row of the table."""
    moved = found.get("moved_us")
    told = "another number of packets"
    if moved is not None:
        told = f"{moved['p50']:.1f} µs, {moved['most']:.0f} µs, {found['moved_far']:.2%}"
    judged = "identical" if found["identical"] else "same" if is_same(name, found) else "**differs**"
    what = ", ".join([*found["counters"]][:2])
    metric = next(((key, share) for key, share in found["metrics"].items() if "processor" not in key), ("none", 0.0))
    return f"| {name} | {judged} | {what} | {told} | {metric[0]}: {metric[1]:.2%} |"


def main() -> None:
    """Record or compare, print the table, save the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", default=[], choices=TRIALS, metavar="NAME", help="this trial")
    parser.add_argument("--save", type=Path, help="keep the comparison, with its machine, in this JSON file")
    args = parser.parse_args()
    described = machine()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.what == "compare":
        print("| trial | judged | counters that differ | times: p50, most, beyond 20 µs | most different metric |")
        print("|---|---|---|---|---|")
    results = {}
    for number, name in enumerate(TRIALS):
        if args.only and name not in args.only:
            continue
        before = args.folder / f"{number:02}"
        if args.what == "record":
            shutil.rmtree(before, ignore_errors=True)
            print(f"{name}: {run(name, before):.1f} s, {wavebed.load(before).record.trials[0].verdict}", flush=True)
            continue
        after = args.folder / f"{number:02}-after"
        shutil.rmtree(after, ignore_errors=True)
        run(name, after)
        results[name] = compared(before, after)
        print(row(name, results[name]), flush=True)
        if args.save:
            args.save.write_text(json.dumps({"machine": described, "trials": results}, indent=1) + "\n")
    if any(
        found["counters"] or found.get("columns", True) or found["moved_us"] > MOST_US for found in results.values()
    ):
        sys.exit(1)


if __name__ == "__main__":
    main()
