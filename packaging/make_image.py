#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an OCI image layout of the Debian package: make_image.py PACKAGE BASE OUT

PACKAGE: what make_deb.py made. BASE: an image by its digest (NAME@sha256:...), or a folder with the
root of a minimal Debian. OUT: the layout, a folder that is not there yet. buildah builds it, without
a daemon and in a store of its own, which is gone afterwards.

The time in it is SOURCE_DATE_EPOCH, else that of the package's files.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
DIGEST = re.compile(r"^[^\s@]+@sha256:[0-9a-f]{64}$")


class Failed(Exception):
    pass


def run(*command):
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True
    )
    if done.returncode:
        said = done.stdout + done.stderr
        raise Failed("%s failed:\n%s" % (" ".join(command[:2]), said[-4000:]))
    return done.stdout.strip()


def check(package, base, out):
    if not shutil.which("buildah"):
        raise Failed("expected buildah in PATH, found none; try `apt-get install buildah`")
    if not os.path.isfile(package):
        raise Failed("%s: expected a Debian package, found no file; try ./dev deb" % package)
    if os.path.exists(out):
        raise Failed("%s is there already: expected the name of a new folder" % out)
    if not os.path.isdir(base) and not DIGEST.match(base):
        raise Failed(
            "base %s: expected NAME@sha256:DIGEST or the folder of a root, found a name that may be "
            "another image tomorrow; `skopeo inspect --format '{{.Digest}}' docker://%s` says its "
            "digest" % (base, base)
        )


def packed_at(package):
    """Seconds: the newest time in the package is that of its source."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return given
    with tempfile.TemporaryDirectory() as folder:
        run("dpkg-deb", "-x", package, folder)
        return str(int(os.stat(os.path.join(folder, "usr", "bin", "twinrun")).st_mtime))


def base_of_root(buildah, root, seconds):
    """An image with one layer, the root; by its digest."""
    container = run(*buildah, "from", "scratch")
    run(*buildah, "add", "--quiet", container, root, "/")
    name = "localhost/base"
    run(*buildah, "commit", "--quiet", "--rm", "--timestamp", seconds, container, name)
    return name + "@" + run(*buildah, "images", "--digests", "--format", "{{.Digest}}", name)


def make(package, base, out):
    """The image's digest."""
    check(package, base, out)
    version = run("dpkg-deb", "-f", package, "Version")
    seconds = packed_at(package)
    with tempfile.TemporaryDirectory(prefix="twinrun-image-") as work:
        store = ("--root", work + "/store", "--runroot", work + "/run", "--storage-driver", "vfs")
        buildah = ("buildah",) + store
        context = os.path.join(work, "context")
        os.mkdir(context)
        shutil.copy2(package, os.path.join(context, "twinrun.deb"))
        shutil.copy2(os.path.join(HERE, "image", "Containerfile"), context)
        if os.path.isdir(base):
            base = base_of_root(buildah, base, seconds)
        run(*buildah, "build", "--quiet", "--isolation", "chroot", "--timestamp", seconds,
            "--build-arg", "BASE=" + base, "--label", "org.opencontainers.image.version=" + version,
            "--label", "org.opencontainers.image.base.digest=" + base.split("@")[1],
            "-t", "localhost/twinrun", context)  # fmt: skip
        run(*buildah, "push", "--quiet", "localhost/twinrun", "oci:%s:%s" % (out, version))
        run(*buildah, "rmi", "--all", "--force")
    return out + ":" + version


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: make_image.py PACKAGE BASE OUT")
    try:
        print(make(*sys.argv[1:]))
    except Failed as error:
        print("make_image.py: %s" % error, file=sys.stderr)
        sys.exit(2)
