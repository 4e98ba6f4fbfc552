"""Did a change of the program change a trial? A set of trials in virtual time, recorded before it, tells.

Usage: python benches/virtual_oracle.py record FOLDER [--only NAME]…
       python benches/virtual_oracle.py compare FOLDER [--only NAME]… [--save FILE]

The set has each stage of a link, each queue, each radio, each remedy and each workload, as short trials. `record` runs
them and keeps their folders. `compare` runs them again and says of each trial whether counters, drops and the columns
of the packet log without times are the same, and by how much the times of packets differ. Another number of system
calls of the program moves packets by their cost, so times may differ by some microseconds. Needs the guest kernel, no
root; some 5 minutes each.
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

import pyarrow.compute as pc
import pyarrow.parquet as pq
from run import machine

import wavebed
from wavebed.result.identity import digests

MOST_US = 20.0
_TIMES = ("entered_ns", "dequeued_ns", "sent_ns", "released_ns", "delivered_ns", "dropped_ns", "written_ns")
_BULK = '[[workload]]\nkind = "bulk"\nduration = "2s"\n'
_BOTH = _BULK + 'direction = "both"\n'
_PING = '[[workload]]\nkind = "latency"\nprobe = "both"\ninterval = "5ms"\n' + _BULK + 'start = "500ms"\n'
_WIRED = '[[path.hop]]\nname = "internet"\nkind = "wired"\ndelay = "8ms"\n'


def _radio(keys: str, path: str = "") -> str:
    return f'[path]\npacket-log = true\n{path}\n{_WIRED}[[path.hop]]\nname = "radio"\nkind = "radio"\n{keys}\n'


def _link(keys: str) -> str:
    return f"[path]\npacket-log = true\n{keys}\n"


def _radio_at(preset: str, rate: str) -> str:
    return _radio(f'radio = "{preset}"\ndown-rate = "{rate}"\nup-rate = "40mbit"') + _BOTH


def _remedy(host: str, remedy: str) -> str:
    edge = '[path.edge]\nafter = "internet"\n' + (f"remedy = {remedy}\n" if host == "edge" else "")
    client = f"[path.client]\nremedy = {remedy}\n" if host == "client" else ""
    return _radio('scene = "kau-e5g-1"') + edge + client + _BULK


TRIALS = {
    "rate and droptail in bytes": _link('rate = "50mbit"\ndelay = "10ms"\nqueue = "droptail:200kb"') + _BOTH,
    "token bucket and drophead": _link(
        'rate = { token-bucket = "40mbit", burst = "64kb" }\ndelay = "5ms"\nqueue = "drophead:100p"'
    )
    + _BULK,
    "jitter, loss, duplicates, reordering, corruption": _link(
        'rate = "50mbit"\ndelay = "10ms"\njitter = "2ms"\nloss = "0.1%"\nduplicate = "0.2%"\n'
        'reorder = { probability = "0.5%", delay = "1ms" }\ncorrupt = "0.05%"'
    )
    + _PING,
    "shaped delay and bursty loss at the entry": _link(
        'rate = "50mbit"\ndelay = { distribution = "normal", mean = "8ms", spread = "1ms", correlation = "25%" }\n'
        'loss = { model = "gilbert-elliott", p = "0.05%", r = "20%" }\nloss-at = "entry"'
    )
    + _PING,
    "four-state loss and a limit of the delay": _link(
        'rate = "20mbit"\ndelay = "10ms"\ndelay-limit = "400p"\n'
        'loss = { model = "four-state", p13 = "0.2%", p31 = "30%", p23 = "1%", p32 = "10%", p14 = "0.1%" }'
    )
    + _BULK,
    "CoDel with marks": _link(
        'rate = "50mbit"\ndelay = "10ms"\nqueue = { kind = "codel", ecn = true }\ncongestion-control = "dctcp"'
    )
    + _BULK,
    "FQ-CoDel": _link('rate = "50mbit"\ndelay = "10ms"\nqueue = "fq_codel"') + _PING + "streams = 3\n",
    "DualPI2": _link('rate = "50mbit"\ndelay = "10ms"\nqueue = "dualpi2"\ncongestion-control = "dctcp"') + _PING,
    "infinite queue, sampled rate, each packet alone": _link(
        'trace = "{patterns}/kau-e5g-1.csv"\nrate-mode = "sampled"\nqueue = "infinite"\ndelay = "5ms"\ncoalesce = "off"'
    )
    + _BULK,
    "trace with outages that drop": _link(
        'trace = "{patterns}/kau-e5g-4.csv"\noutage = "drop"\nstart-at = "0s..20s"\ndelay = "5ms"\nseed = 3'
    )
    + _BULK,
    "802.11ad": _radio_at("802.11ad", "800mbit"),
    "LTE": _radio_at("lte", "60mbit"),
    "NR, 30 kHz": _radio_at("nr-30khz", "200mbit"),
    "NR, 120 kHz, sleep, release, load, limit of the UE": _radio(
        'radio = { preset = "nr-120khz", drx = "on", rrc = "on", load = { mean = "30%" } }\ndown-rate = "400mbit"\n'
        'up-rate = "40mbit"\nue-limit = { packets-per-second = 20000 }'
    )
    + _PING,
    "mmWave scene, CUBIC": _radio('scene = "kau-e5g-1"\nstart-at = "0s..20s"') + _BULK,
    "mmWave scene, BBR, upwards": _radio('scene = "street-canyon-bus"', 'congestion-control = "bbr"')
    + _BULK
    + 'direction = "up"\n',
    "phone with its own scene": _radio('scene = "bbr-5g-phone-mobile"') + _PING,
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
    """Return the sums of the counters of each link and direction."""
    found = {}
    for file, key in (("links", "link"), ("departures", "direction")):
        table = pq.read_table(trial / "series" / f"{file}.parquet")
        names = [
            each for each in table.column_names if each.endswith(("segments", "bytes", "packets", "_sent", "_failed"))
        ]
        names = [each for each in names if not each.startswith("queue_")]
        for row in table.group_by(key).aggregate([(each, "sum") for each in names]).to_pylist():
            found |= {f"{row[key]} {each}": row[f"{each}_sum"] for each in names}
    return found


def metrics(folder: Path) -> dict[str, float]:
    """Return the metrics of all workloads that have a value."""
    rows = wavebed.load(folder).metrics.itertuples()
    return {f"{row.workload}: {row.name}": row.value for row in rows if not math.isnan(row.value)}


def compared(before: Path, after: Path) -> dict[str, Any]:
    """Return what differs between two runs of a trial."""
    old, new = trial_of(before), trial_of(after)
    found: dict[str, Any] = {"identical": digests(old) == digests(new)}
    there, here = counters(old), counters(new)
    found["counters"] = {
        key: [there.get(key), here.get(key)] for key in sorted({*there, *here}) if there.get(key) != here.get(key)
    }
    then, now = metrics(before), metrics(after)
    found["metrics"] = {
        key: [then.get(key), now.get(key)] for key in sorted({*then, *now}) if then.get(key) != now.get(key)
    }
    one, other = (pq.read_table(each / "series" / "packets.parquet") for each in (old, new))
    found["packets"] = [one.num_rows, other.num_rows]
    found["verdicts"] = [wavebed.load(each).record.trials[0].verdict for each in (before, after)]
    if one.num_rows == other.num_rows:
        plain = [each for each in one.column_names if not each.endswith("_ns")]
        found["columns"] = [each for each in plain if not one[each].equals(other[each])]
        moved = [pc.max(pc.abs(pc.subtract(one[each], other[each]))).as_py() or 0 for each in _TIMES]
        found["moved_us"] = max(moved) / 1000
    return found


def row(name: str, found: dict[str, Any]) -> str:
    """Return a row of the table."""
    if found["identical"]:
        return f"| {name} | identical | | |"
    same = not found["counters"] and found["packets"][0] == found["packets"][1] and not found["columns"]
    moved = found.get("moved_us")
    told = "another number of packets" if moved is None else f"{moved:.3f} µs"
    differs = ", ".join([*found["counters"], *found.get("columns", [])][:3])
    return f"| {name} | {'same counts' if same else f'**differs**: {differs}'} | {told} | {len(found['metrics'])} |"


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
        print("| trial | counts, drops, packets | times of packets, most | metrics that differ |")
        print("|---|---|---|---|")
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
