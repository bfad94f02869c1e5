#!/usr/bin/env python3
"""Records or checks the versions from which a release is built: release_versions.py check | record

`record` writes the versions on this machine to scripts/release-versions.txt, which is committed. `check` compares the file with the
machine, and exits with 65 if they differ.

Package.resolved is not committed, because it contains commit ids, and a mirror of a package may have other commit ids. The hash of a
package's files is the same everywhere. To compute the hash without this script, type in the package's folder:

    find . -name .git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum
"""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(os.environ.get("OTAFLASH_RELEASE_ROOT") or pathlib.Path(__file__).resolve().parent.parent)
record = root / "scripts" / "release-versions.txt"
libraries = ("dbus-1", "libcbor", "libcrypto", "liblzma", "libnats", "sqlite3", "zlib")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def tree_hash(folder):
    """Returns the SHA-256 of all files of a folder and of their names, without .git."""
    files = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        paths = [pathlib.Path(parent, name) for name in names if name != ".git"]
        files += [path for path in paths if not path.is_symlink()]
    lines = sorted((b"./" + os.fsencode(path.relative_to(folder)), path) for path in files)
    total = hashlib.sha256()
    for name, path in lines:
        total.update(hashlib.sha256(path.read_bytes()).hexdigest().encode() + b"  " + name + b"\n")
    return total.hexdigest()


def pins():
    """Yields the pin in Package.resolved and the hash of the files, for each Swift package."""
    for pin in json.loads((root / "Package.resolved").read_text())["pins"]:
        name = pin["location"].rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")
        yield pin, tree_hash(root / ".build" / "checkouts" / name)


def toolchain():
    return re.search(r"Swift version (\S+)", output("swift", "--version"))[1]


def lines():
    """Returns the lines of the file for the versions on this machine."""
    found = [f"swift toolchain {toolchain()}"]
    for pin, digest in pins():
        found.append(f"package {pin['identity']} {pin['state'].get('version', pin['state']['revision'])} sha256:{digest}")
    found += [f"library {name} {output('pkg-config', '--modversion', name).strip()}" for name in libraries]
    return sorted(found)


def main(verb):
    new = lines()
    if verb == "record":
        record.write_text("\n".join([
            "# The versions from which a release is built. scripts/release compares them with the machine before the build.",
            "# scripts/release --record writes this file. The last word of a package is the SHA-256 of its files.",
            "# scripts/release_versions.py describes how to compute it.", *new]) + "\n")
        return
    recorded = [line for line in record.read_text().splitlines() if not line.startswith("#")]
    missing, other = [line for line in recorded if line not in new], [line for line in new if line not in recorded]
    if missing or other:
        print("release: this machine does not have the versions in scripts/release-versions.txt:",
              *(f"  recorded: {line}" for line in missing), *(f"  here:     {line}" for line in other),
              *(f"hint: get the recorded package: swift package resolve {name} --version {version}"
                for kind, name, version, *_ in (line.split() + [""] * 3 for line in missing) if kind == "package"),
              "hint: or build with what is here, and commit that: scripts/release --record", sep="\n", file=sys.stderr)
        sys.exit(65)


if __name__ == "__main__":
    if sys.argv[1:] not in (["check"], ["record"]):
        sys.exit("usage: release_versions.py check | record")
    main(sys.argv[1])
