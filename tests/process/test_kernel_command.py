"""``wavebed kernel``: its build with stand-ins for the compiler and the source, its cache, and its errors."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.outputs import checked

from wavebed.cli import main
from wavebed.cli.doctor import kernel_check
from wavebed.virtual import guest, kernel
from wavebed.virtual.kernel import Source, find_kernel, kernel_folder, release

if TYPE_CHECKING:
    from collections.abc import Callable

_MAKE = """#!/bin/sh
echo "$*" >>{log}
case "$*" in
*tinyconfig*) echo '# CONFIG_SLUB_TINY is not set' >.config ;;
*olddefconfig*) {configure} ;;
*linux*) {compile}; printf '#!/bin/sh\\necho %s%s\\n' "$VERSION" "${{3#LOCALVERSION=}}" >linux; chmod 755 linux ;;
esac
"""
_ACCEPT = "sed -i /=n/d .config"
_VERSION = "9.9.1"


def _tar(name: str, content: bytes, mode: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a package of a source of one file; the cache is empty."""
    inner = _tar("linux-source-9.9/Makefile", b"old\n", "w:xz")
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "data.tar.xz").write_bytes(_tar("./usr/src/linux-source-9.9.tar.xz", inner, "w:xz"))
    package = folder / "linux-source.deb"
    subprocess.run(["ar", "rc", package, folder / "data.tar.xz"], check=True)
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    (shipped / "config").write_text("# what for\nCONFIG_TUN=y\nCONFIG_SLUB_TINY=n\n")
    (shipped / "9.9.patch").write_text("--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-old\n+new\n")
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    monkeypatch.setattr(kernel, "SOURCE", Source(_VERSION, "linux-source.deb", digest))
    monkeypatch.setattr(kernel, "_shipped", lambda name: shipped / name)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("WAVEBED_CACHE", str(tmp_path / "cache"))
    return package


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return what makes the build's programs: stand-ins for those that compile; it returns the log of ``make``."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("ar", "patch", "tar", "xz", "sh", "cat", "chmod", "sed"):
        (tools / name).symlink_to(shutil.which(name) or "")
    for name in ("gcc", "flex", "bison", "bc", "strip"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("VERSION", _VERSION)

    def make(configure: str = _ACCEPT, compile_by: str = ":") -> Path:
        (tools / "make").write_text(_MAKE.format(log=tmp_path / "log", configure=configure, compile=compile_by))
        (tools / "make").chmod(0o755)
        return tmp_path / "log"

    return make


def test_a_build_is_kept_and_the_second_one_compiles_nothing(
    source: Path, compiler: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = compiler()
    assert main(["kernel", "status"]) == 3
    assert "is not installed: run `wavebed kernel build`" in capsys.readouterr().err
    assert kernel_check()["status"] == "warn"
    assert main(["kernel", "build", "--source", str(source), "--jobs", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    checked("kernel", told)
    assert told["file"] == str(kernel_folder() / "linux")
    assert told["release"] == release()
    assert "--jobs=3 linux" in log.read_text()
    before = log.read_text()
    assert main(["kernel", "build"]) == 0
    assert log.read_text() == before
    assert main(["kernel", "status"]) == 0
    assert capsys.readouterr().out.endswith(f"Linux {release()}: {kernel_folder() / 'linux'}\n")
    monkeypatch.setattr(kernel, "has_landlock", lambda: False)
    assert (kernel_check()["status"], kernel_check()["remedy"]) == ("warn", kernel.NO_LANDLOCK)
    monkeypatch.setattr(kernel, "has_landlock", lambda: True)
    assert kernel_check()["status"] == "ok"
    assert [each.name for each in kernel_folder().parent.iterdir()] == [release()], "no draft is left"


def test_another_configuration_or_patch_or_source_is_another_kernel(
    source: Path, compiler: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler()
    assert main(["kernel", "build", "--source", str(source)]) == 0
    first = release()
    for name in ("config", "9.9.patch"):
        file = kernel._shipped(name)
        text = file.read_text()
        file.write_text(f"# more\n{text}")
        assert release() != first
        assert find_kernel() is None
        file.write_text(text)
    assert find_kernel() is not None
    monkeypatch.setattr(kernel, "SOURCE", Source(_VERSION, "linux-source.deb", "0" * 64))
    assert find_kernel() is None


def test_a_damaged_kernel_is_built_again(source: Path, compiler: Callable[..., Path]) -> None:
    compiler()
    assert main(["kernel", "build", "--source", str(source)]) == 0
    (kernel_folder() / "linux").write_text("damaged")
    assert find_kernel() is None
    assert main(["kernel", "build", "--source", str(source)]) == 0
    assert find_kernel() is not None


def test_a_kernel_of_another_machine_is_installed_if_it_is_the_same_one(
    source: Path, compiler: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler()
    program = tmp_path / "linux"
    for text, said in (
        ("#!/bin/sh\necho 9.9.1-other\n", "is another kernel"),
        ("no program", "is no kernel that runs here"),
        (None, "no such file or directory"),
    ):
        program.unlink(missing_ok=True)
        if text is not None:
            program.write_text(text)
            program.chmod(0o755)
        assert main(["kernel", "install", str(program)]) == 2
        assert said in capsys.readouterr().err
    program.write_text(f"#!/bin/sh\necho {release()}\n")
    program.chmod(0o755)
    assert main(["kernel", "install", str(program)]) == 0
    assert find_kernel() is not None


@pytest.mark.parametrize(("program", "package"), [("gcc", "gcc"), ("flex", "flex"), ("bc", "bc"), ("xz", "xz-utils")])
def test_a_missing_program_names_its_package(
    program: str, package: str, source: Path, compiler: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    tools = compiler().parent / "tools"
    (tools / program).unlink()
    assert main(["kernel", "build", "--source", str(source)]) == 3
    assert capsys.readouterr().err == f"wavebed: {program}: not found: run `apt-get install {package}`\n"


def test_another_processor_and_another_source_are_one_line(
    source: Path, compiler: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler()
    other = source.with_name("other.deb")
    other.write_bytes(b"other")
    assert main(["kernel", "build", "--source", str(other)]) == 2
    assert "is not linux-source.deb: its SHA-256 is not" in capsys.readouterr().err
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert main(["kernel", "build", "--source", str(source)]) == 3
    assert capsys.readouterr().err == "wavebed: virtual time needs an x86-64 processor, and this is aarch64\n"


def test_a_download_that_fails_names_the_package_and_the_option(
    source: Path, compiler: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler()
    monkeypatch.setattr(kernel, "_ADDRESS", f"file://{source.parent}/missing/")
    assert main(["kernel", "build"]) == 1
    assert "find linux-source.deb elsewhere, and name it with --source" in capsys.readouterr().err
    monkeypatch.setattr(kernel, "_ADDRESS", f"file://{source.parent}/")
    assert main(["kernel", "build"]) == 0


@pytest.mark.parametrize(
    ("configure", "compile_by", "said"),
    [
        ("echo CONFIG_SLUB_TINY=y >.config", ":", "does not take CONFIG_SLUB_TINY=n, CONFIG_TUN=y"),
        (_ACCEPT, "echo broken.c:1: error >&2; exit 2", "make failed with 2: broken.c:1: error"),
        (
            _ACCEPT,
            "echo 'ar: No space left on device' >&2; exit 2",
            "no kernel can be kept there: no space left on device",
        ),
    ],
)
def test_a_failed_build_is_one_line_and_leaves_nothing(
    configure: str,
    compile_by: str,
    said: str,
    source: Path,
    compiler: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    compiler(configure, compile_by)
    assert main(["kernel", "build", "--source", str(source)]) in (1, 3)
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert not list(kernel_folder().parent.iterdir())


def test_the_shipped_configuration_and_patch_are_marked_as_gpl() -> None:
    folder = Path(str(kernel.__file__)).parents[1] / "kernel"
    for file in (folder / "config", *folder.glob("*.patch")):
        assert "SPDX-License-Identifier: GPL-2.0-only" in file.read_text().splitlines()[0]
    assert (folder / f"{kernel.SOURCE.series}.patch").is_file()


def test_the_bytecode_of_guests_is_made_once_and_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_CACHE", str(tmp_path))
    monkeypatch.setattr(guest, "_COMPILE", "import msgspec.inspect")
    folder = guest.bytecode()
    (made,) = folder.rglob("msgspec/inspect.cpython-*.pyc")
    assert made.stat().st_mode & 0o004
    assert folder.stat().st_mode & 0o005 == 0o005
    monkeypatch.setattr(guest, "_COMPILE", "raise SystemExit")
    assert guest.bytecode() == folder
    assert [each.name for each in folder.parent.iterdir()] == [folder.name]


def test_the_bytecode_of_guests_belongs_to_one_installation_and_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEBED_CACHE", str(tmp_path))
    monkeypatch.setattr(guest, "_COMPILE", "import msgspec.inspect")
    folder = guest.bytecode()
    os.utime(folder, (1.0, 1.0))  # older than each module
    monkeypatch.setattr(guest, "_COMPILE", "import msgspec.toml")
    assert guest.bytecode() == folder
    assert list(folder.rglob("msgspec/toml.cpython-*.pyc"))
    monkeypatch.setattr(guest, "_COMPILE", "raise SystemExit")
    monkeypatch.setattr(sys, "prefix", "/another/environment")
    assert guest.bytecode() != folder
