"""Where a packet's time goes: system calls, wake-ups, clock reads and processor time for each wire packet.

Usage: python benches/cost.py [CASE]... [--core PROGRAM] [--first] [--page docs/development/cost.md] [--save FILE]

Cases: `bridge`, `16x100m`, `100m`, `10g`, `20g`, `64-byte`. Each loads a bridge or a laboratory (16x100m: the last of
sixteen), and observes the threads of its engine for a few seconds: by tracepoints for system calls and wake-ups, by
/proc for processor time. A second, shorter look counts clock reads by a probe, which slows the engine. Runs as root;
needs perf. `--page` replaces the table of that page. Prints JSON and the table.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cases import descendants
from many import PAYLOAD_BYTES, copy, first, laboratory, of_wavebed
from run import machine
from systems import QUIET, TOOL

from wavebed._core import find_core

if TYPE_CHECKING:
    from collections.abc import Iterator

WARM_UP_S, WINDOW_S, CLOCK_WINDOW_S = 6, 3.0, 1.0
#: Of a load, which ends with its case: an engine answers late where the machine has no time left.
LONGEST_S = 300
WAITS = ("ppoll", "poll", "epoll_wait", "epoll_pwait", "epoll_pwait2", "clock_nanosleep", "futex")
READS = ("read", "readv", "recvfrom", "recvmsg", "recvmmsg")
WRITES = ("write", "writev", "sendto", "sendmsg", "sendmmsg")
ENGINE_THREAD = "links"
BEGIN, END = "<!-- table by benches/cost.py -->", "<!-- end of table -->"


@dataclass(frozen=True)
class Loaded:
    """A path under load: its engine's threads, its own processes, and its wire packets so far with their time."""

    threads: list[int]
    processes: list[int]

    def packets(self) -> tuple[int, float]:
        """Return wire packets that entered the links so far, and when that was, seconds."""
        raise NotImplementedError


class Laboratory(Loaded):
    """A laboratory, whose client's interface counts: its engine answers late where the machine has no time left."""

    def packets(self) -> tuple[int, float]:
        """Count super-packets by their bytes."""
        names = {process: Path(f"/proc/{process}/comm").read_text().strip() for process in self.processes}
        host = max(process for process, name in names.items() if name in {"iperf3", "wavebed-bench"})
        lines = [line.split() for line in Path(f"/proc/{host}/net/dev").read_text().splitlines()]
        counts = next(
            [int(word) for word in words[1:]] for words in lines if words[0].endswith(":") and words[0] != "lo:"
        )
        received, sent = (max(counts[at] // PAYLOAD_BYTES, counts[at + 1]) for at in (0, 8))
        return received + sent, time.monotonic()


@dataclass(frozen=True)
class Bridge(Loaded):
    """A bridge in a sandbox, asked by way of the program inside."""

    inside: subprocess.Popen[str]

    def packets(self) -> tuple[int, float]:
        """Ask the program inside."""
        assert self.inside.stdin is not None
        assert self.inside.stdout is not None
        self.inside.stdin.write("?\n")
        self.inside.stdin.flush()
        frames, at_s = json.loads(self.inside.stdout.readline())
        return frames, at_s


def threads_of(processes: list[int]) -> list[int]:
    """Return the threads of the engine among these processes."""
    comm = {thread: Path(f"/proc/{thread}/comm").read_text().strip() for thread in all_threads(processes)}
    return [thread for thread, name in comm.items() if name == ENGINE_THREAD]


@contextmanager
def laboratories(core: str, rate: str, paths: int, client: str | None) -> Iterator[Loaded]:
    """Load laboratories; yield the last one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        laboratory(folder, 0, rate, LONGEST_S)
        if client:
            file = folder / "0.lab.json"
            lab = json.loads(file.read_text())
            lab["background"][0]["argv"][-1] = f"exec {TOOL} count --port 9 --quiet-ms 2000"
            lab["command"]["argv"] = client.split()
            file.write_text(json.dumps(lab))
        for number in range(1, paths):
            copy(folder, number)
        running = of_wavebed(core, folder, paths)
        try:
            lab_name = json.loads((folder / f"{paths - 1}.lab.json").read_text())["name"]
            while running[-1].poll() is None and f"/{lab_name}/" not in Path("/proc/net/unix").read_text():
                time.sleep(0.2)
            time.sleep(WARM_UP_S)
            processes = descendants(running[-1].pid)
            yield Laboratory(threads_of(processes), processes)
        finally:
            for each in running:
                each.terminate()
                each.communicate()


@contextmanager
def bridge(core: str) -> Iterator[Loaded]:
    """Load a bridge between two hosts on veth without offloads by four TCP flows."""
    argv = [core, "sandbox", "--", sys.executable, __file__, "--inside-bridge"]
    inside = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert inside.stdout is not None
        json.loads(inside.stdout.readline())
        processes = descendants(inside.pid)
        yield Bridge(threads_of(processes), processes, inside)
    finally:
        inside.communicate("")


def inside_bridge() -> None:
    """Run the bridge and its load, and answer each line of the input with the frames so far."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests/lab"))
    import bridge_agent as agent
    from bridge import offloads

    agent.build()
    offloads(on=False)
    server = agent.ADDRESSES["router"][0]
    with agent.bridge():
        listens = subprocess.Popen(["ip", "netns", "exec", "router", "iperf3", "-s", "-1"], **QUIET)
        time.sleep(0.5)
        argv = ["ip", "netns", "exec", "phone", "iperf3", "-c", server, "-P", "4", "-t", str(LONGEST_S)]
        sends = subprocess.Popen(argv, **QUIET)
        time.sleep(WARM_UP_S)
        print(json.dumps("ready"), flush=True)
        for _ in sys.stdin:
            frames = sum(each["received_frames"] for each in agent.show()["frames"])
            print(json.dumps([frames, time.monotonic()]), flush=True)
        for each in (sends, listens):
            each.terminate()
            each.wait()


def spent_ns(threads: list[int]) -> tuple[float, float]:
    """Return processor time of these threads in user and kernel, nanoseconds; threads that ended count nothing."""
    user, kernel = 0.0, 0.0
    for thread in threads:
        try:
            exact = int(Path(f"/proc/{thread}/schedstat").read_text().split()[0])
            fields = Path(f"/proc/{thread}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks = (int(fields[11]), int(fields[12]))
        share = ticks[0] / sum(ticks) if sum(ticks) else 0.0
        user, kernel = user + share * exact, kernel + (1 - share) * exact
    return user, kernel


def all_threads(processes: list[int]) -> list[int]:
    """Return all threads of these processes."""
    return [int(thread.name) for process in processes for thread in Path(f"/proc/{process}/task").glob("*")]


def counted(events: list[tuple[str, str]], threads: list[int], seconds: float) -> dict[str, int]:
    """Count events of these threads for some time, each with the filter of its tracepoint."""
    argv = ["perf", "stat", "-x", ";", "-t", ",".join(map(str, threads))]
    for event, only in events:
        argv += ["-e", event, *(["--filter", only] if only else [])]
    done = subprocess.run([*argv, "--", "sleep", str(seconds)], capture_output=True, text=True, check=True)
    lines = [line.split(";") for line in done.stderr.splitlines() if ";" in line]
    return {f"{name} {only}".strip(): int(line[0]) for (name, only), line in zip(events, lines, strict=True)}


def clock_reads(threads: list[int]) -> int:
    """Count the engine's clock reads for a moment; each costs a trap meanwhile."""
    libc = re.search(r"\S+/libc\.so\.6", Path("/proc/self/maps").read_text())
    assert libc is not None
    probe = ["perf", "probe", "-q", "-x", libc[0]]
    subprocess.run([*probe, "-a", "wbclock=clock_gettime"], check=True, capture_output=True)
    try:
        return sum(counted([("probe_libc:wbclock", "")], threads, CLOCK_WINDOW_S).values())
    finally:
        subprocess.run(["perf", "probe", "-q", "-d", "probe_libc:wbclock"], check=False, capture_output=True)


def observe(loaded: Loaded) -> dict[str, float]:
    """Return the figures of one path: numbers for each wire packet, times in nanoseconds."""
    events = [(f"syscalls:sys_enter_{name}", "") for name in (*WAITS, *READS, *WRITES)]
    events += [(f"syscalls:sys_exit_{name}", "ret < 0") for name in READS]
    events += [("sched:sched_switch", ""), ("timer:hrtimer_start", "")]
    others = [each for each in all_threads(loaded.processes) if each not in loaded.threads]
    before, at_s = loaded.packets()
    spent, beside, began = spent_ns(loaded.threads), spent_ns(others), time.monotonic()
    found = counted(events, loaded.threads, WINDOW_S)
    took_s = time.monotonic() - began
    (user, kernel), programs = spent_ns(loaded.threads), sum(spent_ns(others)) - sum(beside)
    after, until_s = loaded.packets()
    per_s = (after - before) / (until_s - at_s)
    packets, timed = per_s * WINDOW_S, per_s * took_s
    reads, (first_read, first_s) = clock_reads(loaded.threads), loaded.packets()
    clock_packets = max(1.0, (first_read - after) / (first_s - until_s) * CLOCK_WINDOW_S)

    def calls(names: tuple[str, ...]) -> float:
        return sum(found[f"syscalls:sys_enter_{name}"] for name in names) / packets

    return {
        "packets_per_s": per_s,
        "wake_ups": found["sched:sched_switch"] / packets,
        "timers_set": found["timer:hrtimer_start"] / packets,
        "waits": calls(WAITS),
        "reads": calls(READS),
        "empty_reads": sum(found[f"syscalls:sys_exit_{name} ret < 0"] for name in READS) / packets,
        "writes": calls(WRITES),
        "clock_reads": reads / clock_packets,
        "engine_user_ns": (user - spent[0]) / timed,
        "engine_kernel_ns": (kernel - spent[1]) / timed,
        "programs_ns": programs / timed,
        "load_average": os.getloadavg()[0],
    }


CASES: dict[str, tuple[str, str, int, str | None]] = {
    "bridge": ("bridge without offloads, 4 TCP flows", "", 0, None),
    "16x100m": ("16 laboratories, 1 flow each at 100 Mbit/s", "100mbit", 16, None),
    "100m": ("1 flow at 100 Mbit/s", "100mbit", 1, None),
    "10g": ("1 flow at 10 Gbit/s", "10gbit", 1, None),
    "20g": ("1 flow at 20 Gbit/s", "20gbit", 1, None),
    "64-byte": ("64-byte datagrams, single", "10gbit", 1,
                f"{TOOL} send server:9 --payload 18 --segments 1 --seconds {LONGEST_S}"),
}  # fmt: skip
COLUMNS = {
    "packets_per_s": ("packets/s", ",.0f"),
    "wake_ups": ("wake-ups", ".3f"),
    "waits": ("waits", ".3f"),
    "reads": ("reads", ".3f"),
    "empty_reads": ("of them empty", ".3f"),
    "writes": ("writes", ".3f"),
    "clock_reads": ("clock reads", ".2f"),
    "engine_user_ns": ("engine, user", ",.0f"),
    "engine_kernel_ns": ("engine, kernel", ",.0f"),
    "programs_ns": ("programs", ",.0f"),
}


def table(found: dict[str, dict[str, float]]) -> str:
    """Return the table in Markdown."""
    lines = ["| case | " + " | ".join(title for title, _ in COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, figures in found.items():
        cells = [format(figures[key], how) for key, (_, how) in COLUMNS.items()]
        lines.append(f"| {CASES[name][0]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run the cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="CASE")
    parser.add_argument("--core", help="a build of wavebed-core")
    parser.add_argument("--first", action="store_true", help="before all other programs of the machine")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--inside-bridge", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside_bridge:
        inside_bridge()
        return
    core = os.environ["WAVEBED_CORE"] = arguments.core or find_core()
    described = machine()
    if arguments.first:
        first()
    found = {}
    for case in arguments.cases or CASES:
        _, rate, paths, client = CASES[case]
        with laboratories(core, rate, paths, client) if paths else bridge(core) as loaded:
            found[case] = observe(loaded)
        print(f"{case}: " + ", ".join(f"{key} {value:.4g}" for key, value in found[case].items()), file=sys.stderr)
    record: dict[str, Any] = {"machine": described, "cases": found}
    print(json.dumps(record))
    print(table(found))
    if arguments.page:
        text = arguments.page.read_text(encoding="utf-8")
        start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
        arguments.page.write_text(f"{text[:start]}\n{table(found)}\n{text[end:]}", encoding="utf-8")
    if arguments.save:
        arguments.save.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
