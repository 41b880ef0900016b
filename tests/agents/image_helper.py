# SPDX-License-Identifier: Apache-2.0
"""OCI image layouts, made with Python's own tarfile, gzip and hashlib: the tests' independent hand."""

import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import tarfile

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def entry(name, data=None, mode=0o644, kind=None, target="", mtime=1_600_000_000, **more):
    """(TarInfo, contents)"""
    info = tarfile.TarInfo(name)
    info.mode, info.mtime, info.linkname = mode, mtime, target
    info.type = kind or (tarfile.REGTYPE if data is not None else tarfile.DIRTYPE)
    info.size = len(data) if data is not None and info.type == tarfile.REGTYPE else 0
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def tar(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for info, data in entries:
            t.addfile(info, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


class Layout:
    """A layout in a folder. layers: tar archives as bytes, from the lowest."""

    def __init__(self, folder, layers, env=(), arch=ARCH, packing="gzip", tag=None, change=None):
        self.folder = folder
        (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        packed = [gzip.compress(x, 6, mtime=0) if packing == "gzip" else x for x in layers]
        config = {
            "architecture": arch,
            "os": "linux",
            "config": {"Env": list(env)},
            "rootfs": {"type": "layers", "diff_ids": [sha(x) for x in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "layers": [self.put(x, LAYER + ("+gzip" if packing == "gzip" else "")) for x in packed],
        }
        if change:
            change(config, manifest)
        self.config = self.put_json(config, "application/vnd.oci.image.config.v1+json")
        manifest["config"] = self.config
        self.manifest = self.put_json(manifest, MANIFEST)
        self.layers = manifest["layers"]
        if tag:
            self.manifest["annotations"] = {"org.opencontainers.image.ref.name": tag}
        self.name([self.manifest])

    def name(self, manifests):
        (self.folder / "index.json").write_text(
            json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
        )

    def put(self, data, kind):
        (self.folder / "blobs" / "sha256" / sha(data)[7:]).write_bytes(data)
        return {"mediaType": kind, "digest": sha(data), "size": len(data)}

    def put_json(self, value, kind):
        return self.put(json.dumps(value).encode(), kind)

    def blob(self, descriptor):
        return self.folder / "blobs" / "sha256" / descriptor["digest"][7:]


DOCKER = {
    MANIFEST: "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.config.v1+json": "application/vnd.docker.container.image.v1+json",
    LAYER + "+gzip": "application/vnd.docker.image.rootfs.diff.tar.gzip",
}


def in_docker_form(layout, to):
    """A copy of a layout with one image, in docker's types, as engines and registries keep it. Its
    manifest, and the descriptor of that."""
    shutil.copytree(layout, to)
    index = json.loads((to / "index.json").read_text())
    blobs = to / "blobs" / "sha256"
    old = (blobs / index["manifests"][0]["digest"][7:]).read_text()
    for oci, docker in DOCKER.items():
        old = old.replace(f'"{oci}"', f'"{docker}"')
    named = {"mediaType": DOCKER[MANIFEST], "digest": sha(old.encode()), "size": len(old)}
    (blobs / named["digest"][7:]).write_text(old)
    (to / "index.json").write_text(json.dumps({**index, "manifests": [named]}))
    return json.loads(old), named


def tree(folder):
    """What a folder holds: path to ("f", mode, bytes), ("d",) or ("l", target)."""
    out = {}
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(at, name)
            key = os.path.relpath(path, folder)
            if os.path.islink(path):
                out[key] = ("l", os.readlink(path))
            elif os.path.isdir(path):
                out[key] = ("d",)
            else:
                with open(path, "rb") as f:
                    out[key] = ("f", os.stat(path).st_mode & 0o7777, f.read())
    return out
