"""Print the bill of materials of a program: ``crates_sbom.py PACKAGE``, CycloneDX 1.5 as JSON.

cargo-cyclonedx writes the folders of the machine that built into its bills; this names crates by package URL and
checksum only, and the same sources give the same text.
"""

from __future__ import annotations

import json
import sys
import uuid

from crates import Crate, linked_crates


def bill(program: str) -> dict[str, object]:
    """Return the document."""
    crates = linked_crates([program])
    own = next(crate for crate in crates.values() if crate.name == program)
    components = [_component(crate, "library") for crate in crates.values() if crate is not own]
    content = {
        "metadata": {"component": _component(own, "application")},
        "components": components,
        "dependencies": [{"ref": purl, "dependsOn": list(crate.needs)} for purl, crate in crates.items()],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "serialNumber": f"urn:uuid:{serial}",
        **content,
    }


def _component(crate: Crate, kind: str) -> dict[str, object]:
    component: dict[str, object] = {
        "type": kind,
        "bom-ref": crate.purl,
        "name": crate.name,
        "version": crate.version,
        "purl": crate.purl,
        "licenses": [{"expression": crate.license.replace("/", " OR ")}],
    }
    if crate.checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": crate.checksum}]
    return component


if __name__ == "__main__":
    json.dump(bill(sys.argv[1]), sys.stdout, indent=1)
    print()
