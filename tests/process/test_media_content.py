"""Content made by ffmpeg: bitrates as the MPD says, segments in a row, once in the cache."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from wavebed.errors import MachineError
from wavebed.lab.tools import missing
from wavebed.workload import video_media as content_module
from wavebed.workload.video_media import (
    AUDIO_BPS,
    AUDIO_SEGMENT_S,
    LADDERS,
    Content,
    Representation,
    find,
    make,
    read_ladder,
    top_level,
)

if TYPE_CHECKING:
    from pathlib import Path

needs_ffmpeg = pytest.mark.skipif(bool(missing(["ffmpeg"])), reason="ffmpeg is missing")
NAMESPACE = "{urn:mpeg:dash:schema:mpd:2011}"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(Content.of(LADDERS["study"], 4.0, 12.0), tmp_path_factory.mktemp("cache"))


@needs_ffmpeg
def test_every_bitrate_of_the_study_is_within_2_percent_of_its_nominal_value(study: Path) -> None:
    for each in LADDERS["study"].representations:
        files = [*(study / each.name).glob("*.m4s")]
        assert len(files) == 3
        measured_bps = sum(file.stat().st_size for file in files) * 8 / 12
        assert measured_bps == pytest.approx(each.rate_bps, rel=0.02)
    audio = [*(study / "audio").glob("*.m4s")]
    assert sum(file.stat().st_size for file in audio) * 8 / (len(audio) * AUDIO_SEGMENT_S) == pytest.approx(
        AUDIO_BPS, rel=0.02
    )


@needs_ffmpeg
def test_the_filling_takes_no_space(study: Path) -> None:
    file = study / "1080p" / "1.m4s"
    assert file.stat().st_blocks * 512 < file.stat().st_size


@needs_ffmpeg
def test_segments_follow_one_another_in_the_media(study: Path) -> None:
    for number in (1, 2, 3):
        data = (study / "288p" / f"{number}.m4s").read_bytes()
        assert [kind for kind, _ in top_level(data)] == ["moof", "mdat", "free"]
        at = find(data, b"moof", b"traf", b"tfdt")[0]
        assert struct.unpack_from(">Q", data, at + 4)[0] == (number - 1) * 4 * 24_000


@needs_ffmpeg
def test_the_coded_pictures_have_their_size_and_all_frames(study: Path, tmp_path: Path) -> None:
    if shutil.which("ffprobe") is None:
        pytest.skip("ffprobe is missing")
    whole = tmp_path / "whole.mp4"
    whole.write_bytes(b"".join((study / "720p" / name).read_bytes() for name in ("init.mp4", "1.m4s", "2.m4s")))
    argv = ["ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=width,height,nb_read_frames"]
    done = subprocess.run([*argv, "-of", "json", str(whole)], capture_output=True, check=True, text=True)
    assert done.stderr == ""
    assert json.loads(done.stdout)["streams"][0] == {"width": 1280, "height": 720, "nb_read_frames": "192"}


@needs_ffmpeg
def test_the_mpd_names_what_there_is(study: Path) -> None:
    root = ET.parse(study / "manifest.mpd").getroot()
    assert root.get("mediaPresentationDuration") == "PT12S"
    video = root.findall(f".//{NAMESPACE}AdaptationSet[@contentType='video']/{NAMESPACE}Representation")
    assert [(each.get("id"), each.get("bandwidth")) for each in video] == [
        (each.name, str(each.rate_bps)) for each in LADDERS["study"].representations
    ]
    for each in root.iter(f"{NAMESPACE}Representation"):
        assert (study / str(each.get("id")) / "init.mp4").is_file()


@needs_ffmpeg
def test_content_is_made_once_and_other_content_has_another_place(tmp_path: Path) -> None:
    ladder = read_ladder([{"size": "256x144", "rate": "1mbit"}])
    folder = make(Content.of(ladder, 1.0, 2.0), tmp_path)
    made = (folder / "manifest.mpd").stat().st_mtime_ns
    assert make(Content.of(ladder, 1.0, 2.0), tmp_path) == folder
    assert (folder / "manifest.mpd").stat().st_mtime_ns == made
    assert make(Content.of(ladder, 1.0, 3.0), tmp_path) != folder
    assert {each.name for each in tmp_path.iterdir()} == {
        Content.of(ladder, 1.0, 2.0).key,
        Content.of(ladder, 1.0, 3.0).key,
    }


@needs_ffmpeg
def test_what_does_not_fit_into_its_bitrate_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    ladder = read_ladder([{"size": "1920x1080", "rate": "500kbit"}])
    with pytest.raises(MachineError, match="video 1080p: ffmpeg made"):
        make(Content.of(ladder, 1.0, 1.0), tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_failing_ffmpeg_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_module, "find_program", lambda _: "false")
    with pytest.raises(MachineError, match="ffmpeg: it ended with 1"):
        make(Content.of(LADDERS["study"], 4.0, 12.0), tmp_path)


def test_the_last_segment_is_whole() -> None:
    assert Content.of(LADDERS["study"], 4.0, 40.0).segments == 10
    assert Content.of(LADDERS["study"], 4.0, 41.0).duration_s == 44


def test_a_segment_has_its_nominal_size() -> None:
    each = Representation("x", 1280, 720, 4_140_000, 1280, 720)
    assert Content.of(LADDERS["study"], 4.0, 12.0).segment_bytes(each) == 2_070_000
