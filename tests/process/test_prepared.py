"""Threads may decode one type for the first time at once: msgspec 0.22 crashes where a type is not prepared."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import wavebed

TWO_THREADS = """
import sys, threading
import msgspec
from wavebed.prepared import prepared

sys.setswitchinterval(1e-6)
done = []
for number in range(200):
    part = msgspec.defstruct(f"Part{number}", [(f"p{each}", int) for each in range(30)])
    whole = msgspec.defstruct(f"Whole{number}", [(f"w{each}", list[part] | None) for each in range(20)])
    begin = threading.Barrier(2)

    def convert():
        begin.wait()
        msgspec.convert({f"w{each}": [] for each in range(20)}, prepared(whole))
        done.append(number)

    threads = [threading.Thread(target=convert) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
print(len(done))
"""
PLAIN = {"Any", "None", "bool", "bytes", "dict", "float", "int", "list", "str", "Text"}


def test_two_threads_decode_a_new_type_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", TWO_THREADS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "400\n"), done.stderr


def test_each_type_that_msgspec_decodes_is_prepared() -> None:
    package = Path(wavebed.__file__).parent
    found = {
        f"{file.relative_to(package)}:{kind.lineno}: {ast.unparse(kind)}"
        for file in package.rglob("*.py")
        if file.name != "prepared.py" and "msgspec" in (text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and (kind := _kind(node)) is not None and not _is_safe(kind)
    }
    assert not found


def _kind(call: ast.Call) -> ast.expr | None:
    """Return what a call of msgspec decodes."""
    match ast.unparse(call.func).split("."):
        case ["convert"] | ["msgspec", "convert"]:
            return call.args[1]
        case ["Decoder"] | [*_, "json" | "msgpack" | "toml", "Decoder"]:
            return call.args[0]
        case ["decode"] | [*_, "json" | "msgpack" | "toml", "decode"]:
            return next((each.value for each in call.keywords if each.arg == "type"), None)
    return None


def _is_safe(kind: ast.expr) -> bool:
    if isinstance(kind, ast.Call) and ast.unparse(kind.func) == "prepared":
        return True
    return all(node.id in PLAIN for node in ast.walk(kind) if isinstance(node, ast.Name))
