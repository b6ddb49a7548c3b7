"""Changes to the bytes of a saved model."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from typing import Any

from metricmix.storage.container import as_text, seal


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members: Any, compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members.items() if isinstance(members, dict) else members:
            archive.writestr(name, data)
    return file.getvalue()


def edited(data: bytes, change: Any, *, sealed: bool = True) -> bytes:
    """Return a model whose members were changed, with checksums that are right again."""
    members = members_of(data)
    manifest = json.loads(members["manifest.json"])
    change(manifest, members)
    for name, claim in manifest["arrays"].items() if isinstance(manifest["arrays"], dict) else ():
        if sealed and f"arrays/{name}.npy" in members and isinstance(claim, dict):
            claim["crc32"] = zlib.crc32(members[f"arrays/{name}.npy"])
    if sealed:
        manifest["sha256"] = seal(manifest)
    members["manifest.json"] = as_text(manifest)
    return zipped(members)


def replaced(manifest: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        manifest = manifest[key]
    manifest[path[-1]] = value


def set_entry(*way: Any, to: Any) -> Any:
    return lambda manifest, _: replaced(manifest, way, to)
