#!/usr/bin/env python3
"""Prints the software bill of materials of a build, as SPDX 2.3: sbom.py VERSION BINARY

It lists these packages:
- the Swift packages in Package.resolved, each with its commit and the SHA-256 of its files
- the Swift toolchain, because its runtime is in the binary
- the C libraries in the binary, each with the address and the SHA-256 of its sources (scripts/static-libraries)
- the shared libraries that the binary needs, with the Debian package and version on this machine
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


def main(version, binary):
    digest = hashlib.sha256(pathlib.Path(binary).read_bytes()).hexdigest()
    revision = output("git", "-C", str(root), "rev-parse", "HEAD").strip()
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    ours = package(
        "otaflash", version, checksums=[{"algorithm": "SHA256", "checksumValue": digest}],
        licenseDeclared="Apache-2.0", sourceInfo="commit " + revision)
    parts = [package("swift", release_versions.toolchain()), *swift_packages(), *static_libraries()]
    parts += {part["name"]: part for part in system_libraries(binary)}.values()
    json.dump(
        {
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"otaflash-{version}",
            "documentNamespace": f"urn:otaflash:{version}:{revision}:{digest}",
            "creationInfo": {
                "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: scripts/sbom.py"]},
            "packages": [ours, *parts],
            "relationships": [
                {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": ours["SPDXID"]},
                *({"spdxElementId": ours["SPDXID"], "relationshipType": "DEPENDS_ON", "relatedSpdxElement": part["SPDXID"]}
                  for part in parts),
            ],
        }, sys.stdout, indent=2, sort_keys=True)
    print()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: sbom.py VERSION BINARY")
    main(sys.argv[1], sys.argv[2])
