"""Campaign files on arbitrary text: a plan, or one line, never anything else."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

from wavebed.campaign import read
from wavebed.campaign.plan import plan_campaign, plan_json, plan_text
from wavebed.campaign.read import read_campaign
from wavebed.errors import UserError

FOLDER = Path(tempfile.mkdtemp(prefix="wavebed-fuzz-"))
FILE = FOLDER / "campaign.toml"
SCENARIO = """[path]
rate = "10mbit"
[[workload]]
kind = "command"
run = ["true"]
"""
HEAD = b'scenario = "of/page.toml"\n'
(FOLDER / "of").mkdir()
(FOLDER / "of" / "page.toml").write_text(SCENARIO)


@mock.patch.object(read, "MOST_CELLS", 100)
def test_one_input(data: bytes) -> None:
    FILE.write_bytes(data if b"scenario" in data else HEAD + data)
    try:
        plan = plan_campaign(read_campaign(FILE), None)
    except UserError as error:
        assert "\n" not in str(error).strip(), "one line"
    else:
        assert plan_text(plan)
        assert plan_json(plan)["trials"] == plan.trials
