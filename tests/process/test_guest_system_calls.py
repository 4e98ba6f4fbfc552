"""The filter of system calls around the kernel of a guest: what another program in its place can do."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from wavebed._core import find_core

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="guests need x86-64")

PROGRAM = r"""
import ctypes, json, os, sys

call = ctypes.CDLL(None, use_errno=True).syscall
buffer = ctypes.create_string_buffer(256)

def answer(number, *arguments):
    ctypes.set_errno(0)
    return call(number, *arguments), ctypes.get_errno()

parent, here = os.getppid(), -100
refused = {
    "a TCP socket": (41, 2, 1, 0),
    "a UDP socket": (41, 10, 2, 0),
    "a raw socket": (41, 17, 3, 0),
    "a netlink socket": (41, 16, 3, 0),
    "a Unix socket": (41, 1, 1, 0),
    "a pair of datagram sockets": (53, 1, 2, 0, buffer),
    "a pair of TIPC": (53, 30, 1, 0, buffer),
    "mount": (165, b"none", b"/mnt", b"tmpfs", 0, None),
    "the new calls of mount": (428, here, b"/", 1),
    "umount": (166, b"/proc", 0),
    "pivot_root": (155, b".", b"."),
    "chroot": (161, b"."),
    "unshare": (272, 0x10000000),
    "setns": (308, 0, 0),
    "clone with a namespace": (56, 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": (435, buffer, 88),
    "to attach to a process": (101, 16, parent, 0, 0),
    "to seize a process": (101, 0x4206, parent, 0, 0),
    "the memory of a process": (310, parent, buffer, 1, buffer, 1, 0),
    "a descriptor of a process": (438, 0, 0, 0),
    "a handle of a process": (434, parent, 0),
    "every process": (62, -1, 0),
    "the limits of a process": (302, parent, 7, None, buffer),
    "the processors": (203, 0, 8, buffer),
    "keyctl": (250, 0, -3, 0),
    "add_key": (248, b"user", b"a", b"b", 1, -3),
    "bpf": (321, 0, buffer, 128),
    "userfaultfd": (323, 0),
    "io_uring": (425, 8, buffer),
    "perf": (298, buffer, 0, -1, -1, 0),
    "a module": (313, 0, b"", 0),
    "kexec": (246, 0, 0, None, 0),
    "a file by its handle": (304, here, buffer, 0),
    "the time": (227, 0, buffer),
    "a symbolic link": (88, b"/etc/passwd", b"link"),
    "a link": (86, b"file", b"other"),
    "a device": (133, b"device", 0o20600, 0x103),
    "another user": (105, 1),
    "capabilities": (126, buffer, buffer),
    "a setting of the process": (157, 4, 1, 0, 0, 0),
    "to let the addresses be": (135, 0),
    "an operation of a device": (16, 0, 0x5413, buffer),
}
open("file", "w").write("written")
found = {name: answer(*given) for name, given in refused.items()}
child = os.fork() or os._exit(7)
found["kept"] = [open("file").read(), os.waitpid(child, 0)[1] >> 8, answer(53, 1, 1, 0, buffer)]
print(json.dumps(found))
"""


def test_a_program_in_place_of_the_kernel_makes_no_other_calls_than_the_kernel(tmp_path: Path) -> None:
    processor = min(os.sched_getaffinity(0))
    options = [f"--parent={os.getpid()}", f"--processor={processor}", "--readable=/", f"--writable={tmp_path}"]
    command = [find_core(), "guest", *options, "--", sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout or f'"{done.stderr}"')
    assert found.pop("kept") == ["written", 7, [0, 0]]
    assert {name: got for name, got in found.items() if got != [-1, 1]} == {}, "not refused with EPERM"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
