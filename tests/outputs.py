"""What commands print with ``--json`` against the schemas that are published."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from wavebed.cli.outputs import json_text as printed
from wavebed.cli.outputs import output_schema


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(output_schema(name))


def checked(name: str, data: object) -> Any:
    """Return an output as it is read back, after it was checked against its schema."""
    return read(name, printed(name, data))


def read(name: str, text: str) -> Any:
    """Return what a command printed, after it was checked against the schema."""
    data = json.loads(text)
    problems = [f"{error.json_path}: {error.message}" for error in _validator(name).iter_errors(data)]
    assert not problems, f"output/{name}: {'; '.join(problems[:5])}"
    return data


def checked_text(name: str, data: object, indent: int | None = None) -> str:
    """Take the place of `wavebed.cli.outputs.json_text`: return the same, checked."""
    text = printed(name, data, indent)
    read(name, text)
    return text
