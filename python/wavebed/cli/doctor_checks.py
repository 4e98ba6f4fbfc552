"""The checks of ``wavebed doctor`` beside the kernel: programs, extras, AppArmor's rule for user namespaces."""

from __future__ import annotations

import os
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from wavebed.extras import EXTRAS, PACKAGES, absent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.lab.tools import Program

__all__ = ["APPARMOR_SETTING", "Check", "apparmor_check", "apparmor_profile", "extra_checks", "kernel_check"]
__all__ += ["program_checks"]

APPARMOR_SETTING = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_PROFILE = Path("/etc/apparmor.d/wavebed-core")


class Check(TypedDict):
    """One check; those of the kernel come from ``wavebed-core`` in this form."""

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    remedy: str | None
    package: NotRequired[str]
    needed_by: NotRequired[list[str]]


def program_checks() -> list[Check]:
    """Return a check for every program that a workload, a remedy or the forwarding test runs."""
    from wavebed.lab.tools import PACKAGES as APT_PACKAGES
    from wavebed.lab.tools import install_commands, missing

    users = _users()
    absent_programs = missing(users)
    with ThreadPoolExecutor(max_workers=4) as pool:
        versions = dict(zip(users, pool.map(lambda name: _version(name, absent_programs), users), strict=True))
    return [
        Check(
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


def extra_checks() -> list[Check]:
    """Return a check for every extra of the package."""
    return [_extra_check(name) for name in EXTRAS]


def _extra_check(name: str) -> Check:
    from wavebed.workload import KINDS, kind_of

    modules = EXTRAS[name].modules
    gone = absent(modules)
    kinds = [f"workload {kind}" for kind in KINDS if kind_of(kind).extra == name]
    return Check(
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


def kernel_check() -> Check:
    """Return whether the kernel of virtual time is installed, and whether this machine confines it."""
    from wavebed.virtual.kernel import NO_LANDLOCK, find_kernel, has_landlock

    name = "virtual time"
    found = find_kernel()
    if found is None:
        return Check(name=name, status="warn", found="its kernel is not installed", remedy="wavebed kernel build")
    release = f"Linux {found[1].release}"
    if not has_landlock():
        return Check(name=name, status="warn", found=f"{release}, without Landlock", remedy=NO_LANDLOCK)
    return Check(name=name, status="ok", found=release, remedy=None)


def apparmor_check(core: str, kernel: Mapping[str, str], setting: Path = APPARMOR_SETTING) -> Check:
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
        return Check(name=name, status="ok", found="does not restrict user namespaces", remedy=None)
    said = "kernel.apparmor_restrict_unprivileged_userns = 1: only programs with a profile may use user namespaces"
    if os.geteuid() != 0 and kernel.get("namespaces") == "ok":
        return Check(name=name, status="ok", found=f"{said}; wavebed-core has one", remedy=None)
    if os.geteuid() == 0 and _PROFILE.exists():
        return Check(name=name, status="ok", found=f"{said}; wavebed-core has one: {_PROFILE}", remedy=None)
    found = f"{said}: without root no laboratory can be made, with root all works"
    return Check(name=name, status="warn", found=found, remedy=_apparmor_remedy(core))


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
