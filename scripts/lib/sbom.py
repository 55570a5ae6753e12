"""Writes what a release contains and depends on, as CycloneDX 1.6.

    python scripts/lib/sbom.py FOLDER > tensorbus-X.Y.Z.cdx.json

FOLDER has the wheels and the source distribution. nanobind and robin_map are compiled into the
extension; nothing else is linked statically, except parts of GCC's libgcc. The dependencies are
those of the package's metadata.
"""

from __future__ import annotations

import email
import hashlib
import json
import re
import sys
import uuid
import zipfile
from datetime import datetime, timezone
from email.message import Message
from importlib.metadata import version
from pathlib import Path
from typing import Any


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def requirements(metadata: Message) -> list[dict[str, Any]]:
    """What pip installs: required, or optional where an extra asks for it."""
    found = {}
    for requirement in metadata.get_all("Requires-Dist") or []:
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()
        if name == "tensorbus":
            continue
        scope = "optional" if "extra ==" in requirement else "required"
        if found.get(name, {}).get("scope") != "required":
            found[name] = {
                "type": "library",
                "bom-ref": f"pkg:pypi/{name}",
                "name": name,
                "purl": f"pkg:pypi/{name}",
                "scope": scope,
                "properties": [{"name": "tensorbus:requirement", "value": requirement}],
            }
    return list(found.values())


def compiled_in() -> list[dict[str, Any]]:
    nanobind = version("nanobind")
    return [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/nanobind@{nanobind}",
            "name": "nanobind",
            "version": nanobind,
            "purl": f"pkg:pypi/nanobind@{nanobind}",
            "licenses": [{"license": {"id": "BSD-3-Clause"}}],
            "description": "compiled into the extension",
        },
        {
            "type": "library",
            "bom-ref": "pkg:github/tessil/robin-map",
            "name": "robin-map",
            "purl": "pkg:github/tessil/robin-map",
            "licenses": [{"license": {"id": "MIT"}}],
            "description": "compiled into the extension, as a part of nanobind",
        },
    ]


def main() -> None:
    files = sorted(Path(sys.argv[1]).glob("tensorbus-*.whl"))
    files += sorted(Path(sys.argv[1]).glob("tensorbus-*.tar.gz"))
    metadata = metadata_of(files[0])
    ref = f"pkg:pypi/tensorbus@{metadata['Version']}"
    components = [*compiled_in(), *requirements(metadata)]
    components += [
        {
            "type": "file",
            "bom-ref": path.name,
            "name": path.name,
            "hashes": [{"alg": "SHA-256", "content": digest(path)}],
        }
        for path in files
    ]
    depends = [each["bom-ref"] for each in components if each["type"] == "library"]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # Of the files, so that the same release has the same document.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, ref + digest(files[0]))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "library",
                "bom-ref": ref,
                "name": "tensorbus",
                "version": metadata["Version"],
                "purl": ref,
                "description": metadata["Summary"],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": depends}],
    }
    json.dump(document, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
