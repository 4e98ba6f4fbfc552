"""Backend `hosts` beside backend `namespaces`: the same workloads over the same emulated path, in pairs.

For `hosts`, server and client are namespaces that wavebed joins by the path, and an ssh server (dropbear) runs on the
server: the network is one that the backend does not own. For `namespaces`, the scenario emulates the same path itself.
Each seed runs each part (one scenario) in both backends; order is random. A trial that is failed or invalid is repeated
once; a pair that lacks a usable trial is left out and named. For each metric: ratio (hosts/namespaces) and difference
of the pairs, their medians with the intervals of order statistics, and whether the median, and the whole interval, are
within 5 % or 0.3 ms. ssh goes over a cable of its own, so that one-way delays are measured too; with --ssh path it goes
over the path under test, where a call waits longer for its signalling. With --again each seed runs in `namespaces` a
second time, so that the table also says how much a metric differs by itself: its ratio, or its difference.

Root, iperf3, nginx, curl, irtt, Chromium, ssh and dropbear are needed. A seed takes about 90 s, or 130 s
with --again. Trials are kept in the file of --save as they end; the same command, or another range of seeds, goes on
there.

Usage: python benches/hosts_pair.py [--seeds 1-10] [--parts transfer,web,call] [--ssh beside|path] [--again]
       [--save FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from run import machine

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "path"))

from two_hosts import two_hosts  # noqa: E402

from wavebed.lab.tools import cache_folder  # noqa: E402
from wavebed.run.checks import engine_checks  # noqa: E402
from wavebed.stats.intervals import median_interval  # noqa: E402

PATH = {"rate": "50mbit", "delay": "10ms", "queue": "droptail:250kb"}
"""Each way; a queue of two bandwidth-delay products."""
BACKENDS = ("namespaces", "hosts")
AGAIN = "again"
"""Namespaces once more: how much a metric differs by itself."""
MOST_RATIO, MOST_MS = 0.05, 0.3
TRIES = 2
TRIAL_S = {"transfer": 14, "web": 11, "call": 19}
"""What a trial takes on a machine of two cores that does little else, mean of both backends."""
PARTS = {
    "transfer": """
[[workload]]
kind = "download"
size = "10mb"
limit = "20s"
start = "1s"
[[workload]]
kind = "bulk"
streams = 4
duration = "4s"
limit = "20s"
after = "download"
start = "1s"
[[workload]]
kind = "latency"
probe = "both"
""",
    "web": """
[[workload]]
kind = "web"
site = "google"
limit = "30s"
start = "1s"
""",
    "call": """
[[workload]]
kind = "call"
duration = "8s"
limit = "40s"
start = "1s"
""",
}


def scenario(part: str, backend: str, server: str, address: str) -> str:
    """Return the text of a part's scenario."""
    if backend == "hosts":
        lab = f'[lab]\nbackend = "hosts"\nserver = "ssh://root@{server}"\nserver-address = "{address}"\n[path]\n'
    else:
        lab = "[path]\n" + "".join(f'{key} = "{value}"\n' for key, value in PATH.items())
    return lab + PARTS[part]


def trial(part: str, backend: str, seed: int, ssh: str) -> dict[str, Any]:
    """Run one trial; return its verdict and its metrics."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wavebed-pair-") as name, ExitStack() as stack:
        folder = Path(name)
        words = ["run", str(folder / "s.toml"), "-o", str(folder / "out"), "--seed", str(seed)]
        if backend == "hosts":
            hosts = stack.enter_context(two_hosts(folder, **PATH))
            variables = {**hosts.variables, "WAVEBED_CACHE": str(cache_folder())}
            server, address = hosts.reached(beside=ssh == "beside")
            (folder / "s.toml").write_text(scenario(part, backend, server, address))
            argv = [sys.executable, "-m", "wavebed", *words]
            process = hosts.lab.client.start(argv, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            process.wait(240)
            said = process.output()[1] or ""
            stack.pop_all().close()
            late = [check.evidence for check in engine_checks(hosts.lab.summary or {}, "") if not check.holds]
        else:
            (folder / "s.toml").write_text(scenario(part, backend, "", ""))
            done = subprocess.run(
                [sys.executable, "-m", "wavebed", *words], capture_output=True, text=True, timeout=240, check=False
            )
            said, late = done.stderr, []
        found = [json.loads(file.read_text()) for file in folder.glob("out/trials/*/trial.json")]
    known: dict[str, Any] = {"part": part, "backend": backend, "seed": seed, "ssh": ssh}
    known["wall_s"] = round(time.monotonic() - began, 1)
    if not found:
        return {**known, "verdict": "failed", "reasons": [said.strip().rpartition("\n")[2]], "metrics": {}}
    (record,) = found
    metrics = {
        f"{each['workload']}: {each['name']}": [each["value"], each["unit"]]
        for each in record["metrics"]
        if each["workload"] != "path" or each["name"] == "retransmission share"
    }
    reasons = [*record["reasons"], *(f"path of the hosts: {line}" for line in late)]
    return {**known, "verdict": record["verdict"], "reasons": reasons, "metrics": metrics}


def usable(record: dict[str, Any]) -> bool:
    """Whether the figures of a trial count."""
    return record["verdict"] in ("valid", "suspect")


def todo_left(records: list[dict[str, Any]], arguments: argparse.Namespace) -> list[tuple[int, str, str]]:
    """Return seed, part and backend of the trials that are missing, in random order within a seed."""
    parts = arguments.parts.split(",")
    every = []
    for seed in arguments.seeds:
        order = random.Random(seed)
        backends = [*BACKENDS, *([AGAIN] if arguments.again else [])]
        of_seed = [(part, order.sample(backends, len(backends))) for part in order.sample(parts, len(parts))]
        every += [(seed, part, backend) for part, shuffled in of_seed for backend in shuffled]
    return [
        (seed, part, backend)
        for seed, part, backend in every
        if not any(usable(each) for each in chosen(records, part, backend, seed, arguments.ssh))
    ]


def chosen(records: list[dict[str, Any]], part: str, backend: str, seed: int, ssh: str) -> list[dict[str, Any]]:
    """Return the trials of a part, backend and seed."""
    wanted = (part, backend, seed, ssh)
    return [each for each in records if (each["part"], each["backend"], each["seed"], each["ssh"]) == wanted]


def pairs(
    records: list[dict[str, Any]], part: str, ssh: str, second: str
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the usable trials of `namespaces` and of another backend, by seed."""
    found = []
    for seed in sorted({each["seed"] for each in records}):
        of_both = [chosen(records, part, backend, seed, ssh) for backend in (BACKENDS[0], second)]
        both = [[each for each in some if usable(each)] for some in of_both]
        if all(both):
            found.append((both[0][-1], both[1][-1]))
    return found


def compared(records: list[dict[str, Any]], part: str, ssh: str) -> list[dict[str, Any]]:
    """Return a row for each metric of a part."""
    of_part, again = (pairs(records, part, ssh, second) for second in (BACKENDS[1], AGAIN))
    names = dict.fromkeys(name for both in of_part for each in both for name in each["metrics"])
    rows = [row for name in names if (row := row_of(name, of_part))]
    for row in rows:
        row["part"] = part
        itself = row_of(row["metric"], again)
        if itself:
            row["again"] = {key: itself.get(key) for key in ("ratio", "difference", "within", "pairs")}
    return rows


def row_of(name: str, of_part: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any] | None:
    """Compare one metric; ``None`` if neither backend ever gave it."""
    missing = [None, ""]
    both = [[each["metrics"].get(name, missing)[0] for each in pair] for pair in of_part]
    unit = next((each["metrics"][name][1] for pair in of_part for each in pair if name in each["metrics"]), "")
    given = [(first, second) for first, second in both if first is not None and second is not None]
    counts = [sum(pair[place] is not None for pair in both) for place in (0, 1)]
    if not any(counts):
        return None
    row: dict[str, Any] = {"metric": name, "unit": unit, "pairs": len(given), "given": counts}
    if not given:
        return {**row, "within": None, "interval within": None}
    differences = median_interval([second - first for first, second in given])
    row["namespaces"], row["hosts"] = (statistics.median(pair[place] for pair in given) for place in (0, 1))
    row["difference"] = [differences.estimate, differences.low, differences.high]
    bounds = [(differences, MOST_MS * {"ms": 1, "s": 1e-3}.get(unit, 0))]
    if all(first > 0 and second > 0 for first, second in given):
        ratios = median_interval([second / first for first, second in given])
        row["ratio"] = [ratios.estimate, ratios.low, ratios.high]
        bounds.append((median_interval([second / first - 1 for first, second in given]), MOST_RATIO))
    row["within"] = any(abs(found.estimate or 0) <= most for found, most in bounds)
    row["interval within"] = any(
        found.low is not None and found.high is not None and max(abs(found.low), abs(found.high)) <= most
        for found, most in bounds
    )
    return row


def shown(value: list[float | None] | None) -> str:
    """Return a median and its interval as text."""
    if value is None:
        return ""
    middle, low, high = value
    return f"{middle:.4g}" if low is None or high is None else f"{middle:.4g} [{low:.4g}, {high:.4g}]"


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a table of Markdown."""
    words = {True: "yes", False: "NO", None: "not in both"}
    titles = ["metric", *BACKENDS, "ratio", "difference", "pairs", "median within", "interval within", "again"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        middle = [f"{row[each]:.4g} {row['unit']}".strip() if each in row else "" for each in BACKENDS]
        again = row.get("again") or {}
        itself = shown(again.get("ratio") or again.get("difference"))
        columns = [row["metric"], *middle, shown(row.get("ratio")), shown(row.get("difference")), str(row["pairs"])]
        lines.append(f"| {' | '.join([*columns, words[row['within']], words[row['interval within']], itself])} |")
    return "\n".join(lines)


def seeds_of(text: str) -> range:
    """Read ``3`` or ``1-10``."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds_of, default=range(1, 11), metavar="FIRST-LAST")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of the parts")
    parser.add_argument("--ssh", choices=("beside", "path"), default="beside")
    parser.add_argument("--again", action="store_true", help="namespaces twice: a metric's own variation beside it")
    parser.add_argument("--save", type=Path, help="keep the run, with its machine, in this JSON file, and go on there")
    arguments = parser.parse_args()
    kept = (
        json.loads(arguments.save.read_text()) if arguments.save and arguments.save.exists() else {"machine": machine()}
    )
    records: list[dict[str, Any]] = kept.setdefault("trials", [])
    todo = todo_left(records, arguments)
    about_s = sum(TRIAL_S[part] for _, part, _ in todo)
    print(f"{len(todo)} trials, about {about_s / 60:.0f} min", file=sys.stderr)
    for number, (seed, part, backend) in enumerate(todo, 1):
        for _ in range(TRIES):
            record = trial(part, backend, seed, arguments.ssh)
            records.append({**record, "load": os.getloadavg()[0]})
            said = f"seed {seed}, {part} in {backend}: {record['verdict']}, {record['wall_s']:.0f} s"
            print(f"[{number}/{len(todo)}] {said} {'; '.join(record['reasons'])}", file=sys.stderr)
            if arguments.save:
                arguments.save.write_text(json.dumps(kept, indent=1) + "\n")
            if usable(record):
                break
    kept["path"] = PATH
    kept["comparison"] = [row for part in PARTS for row in compared(records, part, arguments.ssh)]
    print(table(kept["comparison"]))
    if arguments.save:
        arguments.save.write_text(json.dumps(kept, indent=1) + "\n")
    missing = [f"{part} of seed {seed} in {backend}" for seed, part, backend in todo_left(records, arguments)]
    print(f"without a usable trial: {', '.join(missing) or 'none'}", file=sys.stderr)
    one_sided = [row["metric"] for row in kept["comparison"] if row["within"] is None]
    print(f"given by one backend only: {', '.join(one_sided) or 'none'}", file=sys.stderr)
    outside = [row["metric"] for row in kept["comparison"] if row["within"] is False]
    print(f"medians outside of 5 % and 0.3 ms: {', '.join(outside) or 'none'}", file=sys.stderr)


if __name__ == "__main__":
    main()
