"""Writing a run: what is there is whole, whatever happens."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from tests.unit.test_run_write import opened, run_record

from wavebed.store.records import read_run

_LIMITED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.unit.test_run_write import trial_record
from wavebed.store.disk import new_partial
from wavebed.store.folder import write_trial
from wavebed.errors import WavebedError
run_dir = Path(sys.argv[2])
partial = new_partial(run_dir, "0002-bbr", "mark")
try:
    write_trial(run_dir, partial, trial_record("0002-bbr"))
except WavebedError as error:
    print(error)
"""


def test_a_file_that_the_system_does_not_let_grow_is_one_line_too(tmp_path: Path) -> None:
    run_dir = opened(tmp_path)
    done = subprocess.run(
        [sys.executable, "-B", "-c", _LIMITED, Path(__file__).parent, run_dir],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    assert done.stdout == f"{run_dir}: file too large: the trials that had ended can be read\n"
    assert list((run_dir / "trials").iterdir()) == []
    assert read_run(run_dir) == run_record()
