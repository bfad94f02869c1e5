"""Encodes and decodes SMP messages with the published SMP package for Python.

    peer.py vectors   print vectors.txt: every request and every kind of answer, in both versions
    peer.py check     read lines "request NAME HEX" and "answer NAME HEX"; decode each frame with smp, and print it encoded
                      again; of an answer, print only the body in canonical CBOR
    peer.py errors    print the error codes of smp: "general 1", "image 30", "system 2"
"""

import sys

# Read the input before the imports. If a package is missing, the caller would otherwise get SIGPIPE from its write.
LINES = sys.stdin.readlines() if sys.argv[1] == "check" else []

import cbor2
from smp import error, header, image_management as image, os_management as system

DIGEST = bytes(range(32))
DATA = bytes(range(256)) * 2

REQUESTS = {
    "echo": (system.EchoWriteRequest, {"d": "hello"}),
    "parameters": (system.MCUMgrParametersReadRequest, {}),
    "reset": (system.ResetWriteRequest, {}),
    "system": (system.OSApplicationInfoReadRequest, {"format": "i"}),
    "bootloader": (system.BootloaderInformationReadRequest, {}),
    "mode": (system.BootloaderInformationReadRequest, {"query": "mode"}),
    "state": (image.ImageStatesReadRequest, {}),
    "test": (image.ImageStatesWriteRequest, {"hash": DIGEST, "confirm": False}),
    "permanent": (image.ImageStatesWriteRequest, {"hash": DIGEST, "confirm": True}),
    "confirm": (image.ImageStatesWriteRequest, {"confirm": True}),
    "first-chunk": (image.ImageUploadWriteRequest, {"off": 0, "len": 70000, "sha": DIGEST, "data": DATA[:32]}),
    "first-chunk-2": (
        image.ImageUploadWriteRequest, {"off": 0, "len": 70000, "sha": DIGEST, "data": DATA[:32], "image": 2}),
    "chunk": (image.ImageUploadWriteRequest, {"off": 65536, "data": DATA}),
    "erase": (image.ImageEraseRequest, {}),
    "erase-1": (image.ImageEraseRequest, {"slot": 1}),
}

IMAGES = [
    {"slot": 0, "version": "1.2.3", "hash": DIGEST, "bootable": True, "pending": False, "confirmed": True, "active": True,
     "permanent": False},
    {"slot": 1, "version": "1.2.4.5", "hash": DIGEST[::-1], "bootable": True, "pending": True, "confirmed": False,
     "active": False, "permanent": True, "image": 1},
]

ANSWERS = {
    "echo": (system.EchoWriteResponse, {"r": "hello"}),
    "parameters": (system.MCUMgrParametersReadResponse, {"buf_size": 2475, "buf_count": 4}),
    "reset": (system.ResetWriteResponse, {}),
    "system": (system.OSApplicationInfoReadResponse, {"output": "nrf52840dk"}),
    "bootloader": (system.BootloaderInformationReadResponse, {"bootloader": "MCUboot"}),
    "state": (image.ImageStatesReadResponse, {"images": IMAGES, "splitStatus": 0}),
    "marked": (image.ImageStatesWriteResponse, {"images": IMAGES, "splitStatus": 0}),
    "chunk": (image.ImageUploadWriteResponse, {"off": 65536}),
    "last-chunk": (image.ImageUploadWriteResponse, {"off": 70000, "match": True}),
    "erase": (image.ImageEraseResponse, {}),
    "refused": (image.ImageManagementErrorV2, {"err": {"group": 1, "rc": 30}}),
    "unsupported": (image.ImageManagementErrorV1, {"rc": 8}),
    "reason": (image.ImageManagementErrorV1, {"rc": 1, "rsn": "magic mismatch"}),
}

# An error has no operation and command of its own. Here each error answers an upload.
ERRORS = {"refused", "unsupported", "reason"}


def encoded(name, kind, fields, version, sequence):
    if name not in ERRORS:
        return bytes(kind(version=version, sequence=sequence, **fields))
    body = cbor2.dumps(fields, canonical=True)
    head = header.Header(
        op=header.OP.WRITE_RSP, version=version, flags=header.Flag(0), length=len(body), group_id=1, sequence=sequence,
        command_id=1)
    return bytes(kind.load(head, fields))


def vectors():
    print("# Made by peer.py, with smp 4.2.0: kind, name, version field, sequence, bytes.")
    for kind, table in (("request", REQUESTS), ("answer", ANSWERS)):
        for version in (header.Version.V1, header.Version.V2):
            for sequence, (name, (cls, fields)) in enumerate(table.items(), start=int(version) * 100 + 1):
                print(kind, name, int(version), sequence, encoded(name, cls, fields, version, sequence).hex())


def check():
    for line in LINES:
        kind, name, text = line.split()
        data = bytes.fromhex(text)
        if kind == "request":
            message = REQUESTS[name][0].loads(data)
            fields = message.model_dump(exclude={"header", "version", "sequence", "smp_data"}, exclude_unset=True)
            again = type(message)(version=message.version, sequence=message.sequence, **fields)
            print(bytes(again).hex(), flush=True)
        else:
            message = ANSWERS[name][0].loads(data)
            fields = message.model_dump(
                exclude={"header", "version", "sequence", "smp_data"}, exclude_unset=True, exclude_none=True)
            print(cbor2.dumps(fields, canonical=True).hex(), flush=True)


def errors():
    for name, codes in (("general", error.MGMT_ERR), ("image", image.IMG_MGMT_ERR), ("system", system.OS_MGMT_RET_RC)):
        for code in codes:
            if 0 < code < 256:
                print(name, int(code))


{"vectors": vectors, "check": check, "errors": errors}[sys.argv[1]]()
