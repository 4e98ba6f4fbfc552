"""Install, run, remove and purge the Debian package on a copy of this machine. ``test_package.py`` runs it, as root.

The copy is an overlay over ``/`` in a mount, network and process namespace of its own: the upper folder holds what the
package changes. Prints one JSON object.

Usage: python package_trial.py PACKAGE FOLDER
"""

from __future__ import annotations

import filecmp
import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

UNITS = Path("usr/lib/systemd/system")
USER = "wavebed-edge"
OWN_RECORDS = (
    "var/lib/dpkg",
    "var/log",
    "etc/.pwd.lock",
    *(f"etc/{name}-" for name in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")),
)
"""Records of dpkg and of the programs for users; what they say of the package is compared by itself."""
PATIENCE_S = 60
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Copy:
    """A copy of the machine, in the namespaces of this process."""

    def __init__(self, folder: Path) -> None:
        self.upper, self.root = folder / "upper", folder / "root"
        _run("mount", "-t", "tmpfs", "tmpfs", str(folder))
        for name in ("upper", "work", "root"):
            (folder / name).mkdir()
        layers = f"lowerdir=/,upperdir={self.upper},workdir={folder / 'work'}"
        _run("mount", "-t", "overlay", "overlay", "-o", layers, str(self.root))
        for kind, place in (("proc", "proc"), ("sysfs", "sys"), ("cgroup2", "sys/fs/cgroup"), ("tmpfs", "run")):
            _run("mount", "-t", kind, kind, str(self.root / place))
        self._make_devices()
        _run("ip", "link", "set", "lo", "up")

    def _make_devices(self) -> None:
        """Make ``/dev`` as udev does it: a machine of containers may keep the TUN device for root."""
        _run("mount", "-t", "tmpfs", "tmpfs", str(self.root / "dev"))
        (self.root / "dev/net").mkdir()
        for name, number in (("null", (1, 3)), ("zero", (1, 5)), ("urandom", (1, 9)), ("net/tun", (10, 200))):
            os.mknod(self.root / "dev" / name, stat.S_IFCHR, os.makedev(*number))
            (self.root / "dev" / name).chmod(0o666)

    def run(self, *argv: str) -> str:
        """Run a program that must succeed, and return what it said."""
        return _run("chroot", str(self.root), *argv)

    def start(self, unit: str, instance: str = "") -> subprocess.Popen[str]:
        """Start a program as its unit says: user, capabilities, environment and command."""
        service = _service(self.root / UNITS / unit)
        words = ["setpriv", "--no-new-privs", f"--bounding-set=-all,{_added(service['CapabilityBoundingSet'])}"]
        if "User" in service:
            ambient = _added(service["AmbientCapabilities"])
            words += [f"--reuid={service['User']}", f"--regid={service['User']}", "--clear-groups"]
            words += [f"--inh-caps=-all,{ambient}", f"--ambient-caps=-all,{ambient}"]
        environment = {"PATH": _PATH}
        if "EnvironmentFile" in service:
            text = (self.root / service["EnvironmentFile"].lstrip("/")).read_text()
            lines = (line.partition("=") for line in text.splitlines() if line and not line.startswith("#"))
            environment |= {name: shlex.split(value)[0] for name, _, value in lines}
        command = service["ExecStart"].replace("%i", instance)
        for name, value in environment.items():
            command = command.replace(f"${name}", value)
        argv = ["chroot", str(self.root), *words, *shlex.split(command)]
        return subprocess.Popen(
            argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def residue(self) -> list[str]:
        """Return the paths that differ from the machine's own."""
        found = []
        for folder, folders, files in os.walk(self.upper):
            for name in (*folders, *files):
                path = Path(folder, name).relative_to(self.upper)
                own_record = any(path.is_relative_to(record) for record in OWN_RECORDS)
                if not own_record and _differs(self.upper / path, Path("/") / path):
                    found.append(str(path))
        return sorted(found)

    def state(self) -> dict[str, str]:
        """Return what a package may leave behind beside files."""
        return {
            "packages": self.run("dpkg-query", "--show"),
            "users": self.run("getent", "passwd"),
            "groups": self.run("getent", "group"),
            "packet rules": self.run("nft", "list", "ruleset"),
            "routing rules": self.run("ip", "rule") + self.run("ip", "-6", "rule"),
            "routes": self.run("ip", "route", "show", "table", "all"),
            "links": self.run("ip", "-oneline", "link"),
            "settings": Path("/proc/sys/net/ipv4/tcp_syn_linear_timeouts").read_text(),
        }


def _differs(ours: Path, before: Path) -> bool:
    one = ours.lstat()
    # A character device of number 0 is the overlay's sign of a removed file.
    if not os.path.lexists(before):
        return not (stat.S_ISCHR(one.st_mode) and one.st_rdev == 0)
    other = before.lstat()
    if (one.st_mode, one.st_uid, one.st_gid) != (other.st_mode, other.st_uid, other.st_gid):
        return True
    return stat.S_ISREG(one.st_mode) and not filecmp.cmp(ours, before, shallow=False)


def _added(capabilities: str) -> str:
    return ",".join("+" + name.lower().removeprefix("cap_") for name in capabilities.split())


def _service(unit: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in unit.read_text().splitlines() if "=" in line and not line.startswith("#"))
    return {key: value for key, _, value in lines}


def _run(*argv: str) -> str:
    environment = {"PATH": _PATH, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(argv)}: status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def _wait(what: str, program: subprocess.Popen[str], holds: object) -> None:
    assert callable(holds)
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if program.poll() is not None or time.monotonic() > end:
            program.kill()
            sys.exit(f"{what}: not in time; the program said: {program.stdout.read() if program.stdout else ''}")
        time.sleep(0.05)


def _end(program: subprocess.Popen[str], number: signal.Signals) -> int:
    if number != signal.SIGKILL:
        _wait("a program that heeds signals", program, lambda: _heeds(program.pid, number))
    program.send_signal(number)
    return program.wait(PATIENCE_S)


def _heeds(process: int, number: int) -> bool:
    """Return whether a process has blocked a signal, as it does to receive it."""
    lines = (line.partition(":") for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return bool(int(next(value for key, _, value in lines if key == "SigBlk"), 16) >> (number - 1) & 1)


def _try_splitter(copy: Copy) -> dict[str, object]:
    def has_rules() -> bool:
        return "wavebed_splitter" in copy.run("nft", "list", "tables")

    program = copy.start("wavebed-edge-splitter.service")
    _wait("the splitter's rules", program, has_rules)
    assert program.stdout
    # Before it there may be a note: this test raises no limit of open files, which may need more rights than it has.
    said = next((line for line in program.stdout if line.startswith("listening")), "")
    uid = Path(f"/proc/{program.pid}").stat().st_uid
    status = _end(program, signal.SIGTERM)
    result = {"said": said, "uid": uid, "status": status, "rules after TERM": has_rules()}
    # Killed: the removal of the package takes the rules with it.
    program = copy.start("wavebed-edge-splitter.service")
    _wait("the splitter's rules", program, has_rules)
    _end(program, signal.SIGKILL)
    return result | {"rules after KILL": has_rules()}


def _try_tunnel(copy: Copy) -> dict[str, object]:
    folder = copy.root / "etc/wavebed-edge/tunnel"
    key = f"/var/lib/{USER}/test.key"
    public = copy.run("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *_key(key)).strip()
    sample = (folder / "example.toml.sample").read_text()
    text = sample.replace(f"/var/lib/{USER}/NAME.key", key).replace("the other end's public key, 64 digits", public)
    (folder / "test.toml").write_text(text.replace("198.51.100.0/24", "10.99.0.0/24"))
    program = copy.start("wavebed-edge-tunnel@.service", "test")
    _wait("the tunnel's route", program, lambda: "dev wbt0" in copy.run("ip", "route"))
    routes = copy.run("ip", "route")
    return {"routes": routes, "status": _end(program, signal.SIGTERM)}


def _key(path: str) -> tuple[str, ...]:
    return ("wavebed-edge", "tunnel", "key", path)


def _try_syn(copy: Copy) -> dict[str, object]:
    setting = Path("/proc/sys/net/ipv4/tcp_syn_linear_timeouts")
    before = setting.read_text()
    program = copy.start("wavebed-edge-syn.service")
    _wait("the settings of syn", program, lambda: setting.read_text() != before)
    return {"status": _end(program, signal.SIGTERM), "restored": setting.read_text() == before}


def main() -> None:
    """Run the trial."""
    package, folder = Path(sys.argv[1]), Path(sys.argv[2])
    copy = Copy(folder)
    (copy.root / "run/package.deb").write_bytes(package.read_bytes())
    before = copy.state()
    copy.run("dpkg", "--install", "/run/package.deb")
    installed = {
        "files": copy.residue(),
        "version": copy.run("dpkg-query", "--show", "--showformat=${Version}", USER),
        "program": copy.run("wavebed-edge", "--version"),
        "uid": int(copy.run("id", "--user", USER)),
        "running": copy.state()["packet rules"] != before["packet rules"],
    }
    units = ["wavebed-edge-splitter.service", "wavebed-edge-tunnel@test.service", "wavebed-edge-syn.service"]
    result = {
        "installed": installed,
        "verified": copy.run("systemd-analyze", "verify", *(f"/{UNITS}/{unit}" for unit in units)),
        "splitter": _try_splitter(copy),
        "tunnel": _try_tunnel(copy),
        "syn": _try_syn(copy),
    }
    copy.run("systemctl", "enable", *units)
    copy.run("dpkg", "--remove", USER)
    result["removed"] = {"files": copy.residue(), "packet rules": copy.state()["packet rules"]}
    copy.run("dpkg", "--purge", USER)
    after = copy.state()
    result["purged"] = {
        "files": copy.residue(),
        "changed": {name: [before[name], after[name]] for name in before if before[name] != after[name]},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
