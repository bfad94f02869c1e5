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


def present():
    """Returns the versions on this machine, by kind and name."""
    found = {("swift", "toolchain"): (toolchain(),)}
    for pin, digest in pins():
        state = pin["state"]
        found["package", pin["identity"]] = (state.get("version", state["revision"]), "sha256:" + digest)
    for name in libraries:
        found["library", name] = (output("pkg-config", "--modversion", name).strip(),)
    return found


def recorded():
    found = {}
    for number, line in enumerate(record.read_text().splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != (4 if words[0] == "package" else 3) or (words[0], words[1]) in found:
            sys.exit(f"release: {record}:{number}: not a line that --record writes: {line}")
        found[words[0], words[1]] = tuple(words[2:])
    return found


def differences(old, new):
    """Returns a line for each difference, and hints with the commands that get the recorded packages."""
    lines, hints = [], []
    for kind, name in sorted(old.keys() | new.keys()):
        before, now = old.get((kind, name)), new.get((kind, name))
        if before == now:
            continue
        if before is None or now is None:
            state = f"{now[0]} is here, and it is not recorded" if now else f"{before[0]} is recorded, and it is not here"
        elif before[0] != now[0]:
            state = f"{before[0]} is recorded, {now[0]} is here"
            if kind == "package":
                hints.append(f"get the recorded version: swift package resolve {name} --version {before[0]}")
        else:
            state = f"{now[0]} is recorded and here, and its files differ: {before[1]} is recorded, {now[1]} is here"
            hints.append(f"get the package again: rm -rf .build/checkouts/{name} && swift package resolve")
        lines.append(f"  {kind} {name}: {state}")
    return lines, hints


def main(verb):
    new = present()
    if verb == "record":
        text = [
            "# The versions from which a release is built. scripts/release compares them with the machine before the build.",
            "# scripts/release --record writes this file. The last word of a package is the SHA-256 of its files.",
            "# scripts/release_versions.py describes how to compute it.",
        ]
        text += [" ".join((kind, name) + words) for (kind, name), words in sorted(new.items())]
        record.write_text("\n".join(text) + "\n")
        return
    lines, hints = differences(recorded(), new)
    if lines:
        print("release: this machine does not have the versions in scripts/release-versions.txt:", *lines, sep="\n", file=sys.stderr)
        hints.append("or build with what is here, and commit that: scripts/release --record")
        print(*("hint: " + hint for hint in hints), sep="\n", file=sys.stderr)
        sys.exit(65)


if __name__ == "__main__":
    if sys.argv[1:] not in (["check"], ["record"]):
        sys.exit("usage: release_versions.py check | record")
    main(sys.argv[1])
