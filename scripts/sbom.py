#!/usr/bin/env python3
"""Prints the software bill of materials of a build, as SPDX 2.3: sbom.py VERSION BINARY...

It lists these packages:
- the Swift packages in Package.resolved, each with its commit and the SHA-256 of its files
- the Swift toolchain, because its runtime is in each binary
- the C libraries in the binaries, each with the address and the SHA-256 of its sources (scripts/static-libraries)
- the shared libraries that each binary needs, with the Debian package and version on this machine
"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import release_versions

root = pathlib.Path(__file__).resolve().parent.parent


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def identifier(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package(name, version, location="NOASSERTION", **more):
    return {
        "SPDXID": identifier(name), "name": name, "versionInfo": version, "downloadLocation": location,
        "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
    } | more


def swift_packages():
    for pin, digest in release_versions.pins():
        state = pin["state"]
        yield package(
            pin["identity"], state.get("version", state["revision"]),
            "git+" + pin["location"].removesuffix(".git") + ".git@" + state["revision"],
            sourceInfo="SHA-256 of its files, as scripts/release_versions.py computes it: " + digest)


def static_libraries():
    for line in output(root / "scripts" / "static-libraries", "list").splitlines():
        name, address, digest = line.split()
        name, version = name.rsplit("-", 1)
        yield package(name, version, address, checksums=[{"algorithm": "SHA256", "checksumValue": digest}],
                      sourceInfo="linked statically; the checksum is that of the sources")


def system_libraries(binary):
    for line in output("ldd", binary).splitlines():
        path = re.search(r"=> (/\S+)", line)
        if not path:
            continue
        # dpkg knows the path in the package. On a system with a merged /usr, the loader may find the file at another path. So the query has
        # all forms of the path.
        places = {path[1], os.path.realpath(path[1])}
        places |= {place.removeprefix("/usr") for place in places}
        found = subprocess.run(["dpkg-query", "-S", *places], capture_output=True, text=True).stdout
        if found:
            owner = found.split(": ")[0].split(",")[0]
            yield package(owner.split(":")[0], output("dpkg-query", "-W", "-f", "${Version}", owner))


def main(version, *binaries):
    revision = output("git", "-C", str(root), "rev-parse", "HEAD").strip()
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    shared = {part["name"]: part for part in (package("swift", release_versions.toolchain()), *swift_packages(), *static_libraries())}
    parts, relationships, digests = dict(shared), [], []
    for path in map(pathlib.Path, binaries):
        digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
        ours = package(
            path.name, version, checksums=[{"algorithm": "SHA256", "checksumValue": digests[-1]}],
            licenseDeclared="Apache-2.0", sourceInfo="commit " + revision)
        needed = shared | {part["name"]: part for part in system_libraries(path)}
        parts |= needed | {path.name: ours}
        relationships.append(("SPDXRef-DOCUMENT", "DESCRIBES", ours))
        relationships += ((ours["SPDXID"], "DEPENDS_ON", part) for part in needed.values())
    json.dump(
        {
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"otaflash-{version}",
            "documentNamespace": f"urn:otaflash:{version}:{revision}:{'-'.join(digests)}",
            "creationInfo": {
                "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: scripts/sbom.py"]},
            "packages": list(parts.values()),
            "relationships": [
                {"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": part["SPDXID"]}
                for element, kind, part in relationships
            ],
        }, sys.stdout, indent=2, sort_keys=True)
    print()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: sbom.py VERSION BINARY...")
    main(*sys.argv[1:])
