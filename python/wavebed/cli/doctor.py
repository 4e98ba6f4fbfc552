"""``wavebed doctor`` and ``wavebed kernel``: what this machine can do, and the guest kernel of virtual time."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict, cast

from wavebed._core import find_core
from wavebed.cli.outputs import print_json
from wavebed.config.problems import at
from wavebed.config.values import number
from wavebed.errors import MachineError, WavebedError
from wavebed.extras import EXTRAS, PACKAGES, absent
from wavebed.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from wavebed.lab.tools import Program

_DESCRIPTION = (
    "Check the kernel features of a laboratory, list the programs and packages of workloads and commands, and name the"
    " remedy of each fault. Status 3 if no laboratory can run."
)
_MARKS = {"ok": "ok", "warn": "warning", "fail": "FAIL"}
_COLOURS = {"ok": "32", "warn": "33", "fail": "31;1"}


def register_doctor(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed doctor`` to the program's parser."""
    parser = subparsers.add_parser("doctor", help=_DESCRIPTION, description=_DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run_doctor(args: argparse.Namespace) -> int:
    """Examine the machine; the status is 3 if no laboratory can run."""
    core = find_core()
    can_run, checks = _kernel(core)
    checks.append(apparmor_check(core, {check["name"]: check["status"] for check in checks}))
    checks.append(kernel_check())
    programs, extras = program_checks(), extra_checks()
    if args.json:
        print_json("doctor", {"can_run": can_run, "checks": checks, "programs": programs, "extras": extras})
    else:
        print(_text(checks, programs, extras, can_run=can_run))
    return 0 if can_run else MachineError.exit_status


def _kernel(core: str) -> tuple[bool, list[DoctorCheck]]:
    """Return whether a laboratory can run, and the checks of ``wavebed-core``."""
    done = subprocess.run(
        [core, "doctor", "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        reason = done.stderr.strip() or f"it ended with {done.returncode}"
        raise WavebedError(f"wavebed-core doctor: {reason}") from None
    return report["can_run"], cast("list[DoctorCheck]", report["checks"])


def _text(
    checks: Sequence[DoctorCheck], programs: Sequence[DoctorCheck], extras: Sequence[DoctorCheck], *, can_run: bool
) -> str:
    every = [*checks, *programs, *extras]
    width = max(len(check["name"]) for check in every)
    tables = [_table(part, width) for part in (checks, programs, extras)]
    parts = [tables[0], f"Programs\n{tables[1]}", f"Packages\n{tables[2]}"]
    warnings = sum(check["status"] == "warn" for check in every)
    if not can_run:
        parts.append("No laboratory can run on this machine yet: correct each FAIL.")
    elif warnings:
        parts.append(f"Laboratories run on this machine. Warnings: {warnings}.")
    else:
        parts.append("Laboratories run on this machine.")
    return "\n\n".join(parts)


def _table(checks: Sequence[DoctorCheck], width: int) -> str:
    margin = width + 11
    room = max(40, shutil.get_terminal_size((100, 24)).columns - margin)
    lines = []
    for check in checks:
        mark = _MARKS[check["status"]].ljust(7)
        if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            mark = f"\x1b[{_COLOURS[check['status']]}m{mark}\x1b[0m"
        first, *more = [*_found(check, room), *_needs(check, room), *_remedy(check, room)]
        lines += [f"{check['name'].ljust(width)}  {mark}  {first}", *(" " * margin + line for line in more)]
    return "\n".join(lines)


def _found(check: DoctorCheck, room: int) -> list[str]:
    found = printable(check["found"])
    if "package" in check:  # a version: its end is a list of libraries
        return [textwrap.shorten(found, room, placeholder=" …")]
    return textwrap.wrap(found, room)


def _needs(check: DoctorCheck, room: int) -> list[str]:
    users = check.get("needed_by")
    return textwrap.wrap(f"for {', '.join(users)}", room, subsequent_indent="  ") if users else []


def _remedy(check: DoctorCheck, room: int) -> list[str]:
    """Return the lines of the remedy; those that are to be typed begin with blanks and are not broken."""
    lines = []
    for place, line in enumerate((check["remedy"] or "").splitlines()):
        arrow = "→ " if place == 0 else "  "
        typed = line.startswith("  ")
        lines += [f"  {line}"] if typed else textwrap.wrap(f"{arrow}{line}", room, subsequent_indent="  ")
    return lines


APPARMOR_SETTING = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_PROFILE = Path("/etc/apparmor.d/wavebed-core")


class DoctorCheck(TypedDict):
    """One check; ``wavebed-core`` reports the checks of the kernel in this form."""

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    remedy: str | None
    package: NotRequired[str]
    needed_by: NotRequired[list[str]]


def program_checks() -> list[DoctorCheck]:
    """Return a check for every program that a workload, a remedy or the forwarding test runs."""
    from wavebed.lab.tools import PACKAGES as APT_PACKAGES
    from wavebed.lab.tools import install_commands, missing

    users = _users()
    absent_programs = missing(users)
    with ThreadPoolExecutor(max_workers=4) as pool:
        versions = dict(zip(users, pool.map(lambda name: _version(name, absent_programs), users), strict=True))
    return [
        DoctorCheck(
            name=name,
            status="warn" if name in absent_programs else "ok",
            found=versions[name],
            remedy=install_commands([name])[0] if name in absent_programs else None,
            package=APT_PACKAGES[name],
            needed_by=users[name],
        )
        for name in users
    ]


def _version(name: str, absent_programs: list[str]) -> str:
    from wavebed.lab.tools import version

    return "not installed" if name in absent_programs else version(name)


def _users() -> dict[str, list[str]]:
    """Return the users of each program, by the program's name."""
    from wavebed.kinds import KINDS as RESULTS
    from wavebed.kinds import result_kind
    from wavebed.remedy import KINDS as REMEDIES
    from wavebed.remedy import kind_of as remedy_of
    from wavebed.remedy.model import EDGE
    from wavebed.workload import KINDS, kind_of

    found: dict[str, list[str]] = {}
    for kind in KINDS:
        for program in kind_of(kind).programs:
            found.setdefault(program.name, []).append(f"{kind}{_condition(program)}")
    for remedy in REMEDIES:
        for name in remedy_of(remedy).programs:
            if name != EDGE:
                found.setdefault(name, []).append(f"remedy {remedy}")
    for result in RESULTS:
        for name, option in result_kind(result).programs.items():
            found.setdefault(name, []).append(f"{result} ({option})")
    return dict(sorted(found.items()))


def _condition(program: Program) -> str:
    if not program.option:
        return ""
    values = " or ".join(str(value).lower() if isinstance(value, bool) else f'"{value}"' for value in program.values)
    return f" ({program.option} = {values})"


def extra_checks() -> list[DoctorCheck]:
    """Return a check for every extra of the package."""
    return [_extra_check(name) for name, extra in EXTRAS.items() if extra.commands]


def _extra_check(name: str) -> DoctorCheck:
    from wavebed.workload import KINDS, kind_of

    modules = EXTRAS[name].modules
    gone = absent(modules)
    kinds = [f"workload {kind}" for kind in KINDS if kind_of(kind).extra == name]
    return DoctorCheck(
        name=f"wavebed[{name}]",
        status="warn" if gone else "ok",
        found=f"not installed: {', '.join(gone)}" if gone else ", ".join(_with_version(module) for module in modules),
        remedy=f"pip install 'wavebed[{name}]'" if gone else None,
        needed_by=[*EXTRAS[name].commands, *kinds],
    )


def _with_version(module: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    package = PACKAGES[module]
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:  # on the path, but not installed
        return package


def kernel_check() -> DoctorCheck:
    """Return whether the kernel of virtual time is installed, and whether this machine confines it."""
    from wavebed.virtual.kernel import NO_LANDLOCK, find_kernel, has_landlock

    name = "virtual time"
    found = find_kernel()
    if found is None:
        return DoctorCheck(name=name, status="warn", found="its kernel is not installed", remedy="wavebed kernel build")
    release = f"Linux {found[1].release}"
    if not has_landlock():
        return DoctorCheck(name=name, status="warn", found=f"{release}, without Landlock", remedy=NO_LANDLOCK)
    return DoctorCheck(name=name, status="ok", found=release, remedy=None)


def apparmor_check(core: str, kernel: Mapping[str, str], setting: Path = APPARMOR_SETTING) -> DoctorCheck:
    """Return what AppArmor's restriction of user namespaces (Ubuntu 23.10 and newer) means for wavebed without root.

    Parameters
    ----------
    core : str
        The program ``wavebed-core``.
    kernel : mapping
        The status of each check of the kernel, by name.
    setting : pathlib.Path
        The kernel's setting; there is none where AppArmor cannot restrict them.
    """
    name = "apparmor"
    try:
        is_on = setting.read_text(encoding="ascii").strip() == "1"
    except OSError:
        is_on = False
    if not is_on:
        return DoctorCheck(name=name, status="ok", found="does not restrict user namespaces", remedy=None)
    said = "kernel.apparmor_restrict_unprivileged_userns = 1: only programs with a profile may use user namespaces"
    if os.geteuid() != 0 and kernel.get("namespaces") == "ok":
        return DoctorCheck(name=name, status="ok", found=f"{said}; wavebed-core has one", remedy=None)
    if os.geteuid() == 0 and _PROFILE.exists():
        return DoctorCheck(name=name, status="ok", found=f"{said}; wavebed-core has one: {_PROFILE}", remedy=None)
    found = f"{said}: without root no laboratory can be made, with root all works"
    return DoctorCheck(name=name, status="warn", found=found, remedy=_apparmor_remedy(core))


def apparmor_profile(attachment: str) -> tuple[str, ...]:
    """Return the lines of a profile of AppArmor that lets a program make user namespaces, and no more than before else.

    Parameters
    ----------
    attachment : str
        The path of ``wavebed-core``, or a pattern of paths.
    """
    return (
        "abi <abi/4.0>,",
        "include <tunables/global>",
        f'profile wavebed-core "{attachment}" flags=(unconfined) {{',
        "  userns,",
        "}",
    )


def _apparmor_remedy(core: str) -> str:
    profile = apparmor_profile(str(Path(core).resolve()))
    lines = " ".join(shlex.quote(line) for line in profile)
    return "\n".join(
        (
            "run wavebed with sudo, or allow user namespaces to wavebed-core alone, by a profile:",
            f"  printf '%s\\n' {lines} | sudo tee {_PROFILE}",
            f"  sudo apparmor_parser -r {_PROFILE}",
            "or to every program, as before Ubuntu 24.04:",
            "  echo kernel.apparmor_restrict_unprivileged_userns=0 | sudo tee /etc/sysctl.d/60-userns.conf",
            "  sudo sysctl -p /etc/sysctl.d/60-userns.conf",
        )
    )


_KERNEL_DESCRIPTION = (
    "Build, install or find the kernel of virtual time: Linux as an ordinary program, in which trials run."
)
_EPILOG = (
    "The kernel is kept in the cache ($WAVEBED_CACHE, or ~/.cache/wavebed). It is built again only if its source, its"
    " patch or its configuration changes."
)
_BUILD = "Build the kernel from its pinned source, unless it is installed."
_INSTALL = "Install a kernel that the same version of wavebed built on another machine."
_STATUS = "Print where the kernel is. The status is 3 if it is not installed."
_MOST_JOBS = 1024


def register_kernel(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed kernel`` to the program's parser."""
    parser = subparsers.add_parser("kernel", help=_KERNEL_DESCRIPTION, description=_KERNEL_DESCRIPTION, epilog=_EPILOG)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    build = actions.add_parser("build", help=_BUILD, description=_BUILD)
    build.add_argument(
        "--source",
        metavar="FILE",
        type=Path,
        help="Debian package of the kernel's source (default: download it from the Debian archive)",
    )
    build.add_argument("--jobs", metavar="N", help="compilers at the same time (default: one for each processor)")
    install = actions.add_parser("install", help=_INSTALL, description=_INSTALL)
    install.add_argument("program", metavar="FILE", type=Path, help="the program that `wavebed kernel build` made")
    status = actions.add_parser("status", help=_STATUS, description=_STATUS)
    for each in (build, install, status):
        each.add_argument("--json", action="store_true", help="print one JSON object")


def run_kernel(args: argparse.Namespace) -> int:
    """Build or install the kernel, and print where it is."""
    from wavebed.virtual.kernel import build, install, needed_kernel

    if args.action == "build":
        processors = len(os.sched_getaffinity(0))
        jobs = processors if args.jobs is None else at("--jobs", number(1, _MOST_JOBS), args.jobs)
        build(args.source, _say, jobs)
    elif args.action == "install":
        install(args.program)
    file, built = needed_kernel()
    if args.json:
        print_json("kernel", {"file": str(file), "release": built.release, "sha256": built.sha256})
    else:
        print(f"Linux {built.release}: {printable(str(file))}")
    return 0


def _say(line: str) -> None:
    print(f"wavebed kernel: {line}", file=sys.stderr, flush=True)
