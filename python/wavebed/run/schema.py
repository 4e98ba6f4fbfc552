"""The JSON Schema of a scenario file, from the types that read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.config.table import table_schema
from wavebed.path.tables import path_schema
from wavebed.run.lab_table import LabTable
from wavebed.run.scenario import RunTable
from wavebed.workload import KINDS, kind_of
from wavebed.workload.keys import Common

if TYPE_CHECKING:
    from wavebed.config.data import Json
    from wavebed.config.reader import Schema

__all__ = ["scenario_schema"]

_TREATMENT: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "name of the treatment"},
        "set": {"type": "object", "description": 'what it changes, by dotted key: { "path.rate" = "50mbit" }'},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def scenario_schema() -> Schema:
    """Return the JSON Schema of a scenario file."""
    path, definitions = path_schema()
    return {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "what people read"},
            "source": {"type": "string", "description": "where the numbers come from"},
            "path": dict(path),
            "lab": dict(table_schema(LabTable)),
            "run": dict(table_schema(RunTable)),
            "workload": {"type": "array", "items": {"anyOf": [_workload(kind) for kind in KINDS]}},
            "treatment": {"type": "array", "items": _TREATMENT},
        },
        "required": ["path"],
        "additionalProperties": False,
        "$defs": dict(definitions),
    }


def _workload(name: str) -> Json:
    kind = kind_of(name)
    schema = dict(table_schema(Common, kind.options_type))
    properties = schema["properties"]
    assert isinstance(properties, dict), "an object has properties"
    schema["properties"] = properties | {"kind": {"const": name, "description": kind.summary}}
    return schema
