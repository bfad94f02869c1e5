"""Makes and reads signed bundles. It is written only from docs/bundle-format.md, without code from the Swift or C sources."""

import hashlib
import re
import struct
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

VERSION, BATTERY, SOURCE, PRODUCT, HARDWARE, REQUIRES = 0x0002, 0x0004, 0x0006, 0x8001, 0x8003, 0x8005
CRITICAL = 0x8000
ED25519 = 1
LENGTHS = {ED25519: 64, 2: 2420, 3: 3309, 4: 4627}  # the length of a signature, by algorithm
LATEST = 253402300799
NUMBER = r"(?:0|[1-9][0-9]*)"
IDENTIFIER = rf"(?:{NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
SEMVER = re.compile(
    rf"({NUMBER})\.({NUMBER})\.({NUMBER})(?:-{IDENTIFIER}(?:\.{IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


class Malformed(Exception):
    """The bundle violates docs/bundle-format.md."""


class UnknownCriticalField(Exception):
    """The bundle has an unknown critical field, which must not be skipped."""


def sha256(data):
    return hashlib.sha256(data).digest()


def key_id(public):
    return sha256(public)[:8]


def raw_public(private):
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def private_pem(private):
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_pem(private):
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


EXAMPLE_KEY = Ed25519PrivateKey.from_private_bytes(
    bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")  # RFC 8032, 7.1, test 1
)


def numbers(version):
    """Returns major, minor and patch of a SemVer text."""
    match = SEMVER.fullmatch(version)
    if not match or not 5 <= len(version) <= 63 or any(int(part) >= 1 << 32 for part in match.groups()):
        raise Malformed(f"version {version!r}")
    return tuple(int(part) for part in match.groups())


@dataclass
class Manifest:
    product: str
    version: str
    image_size: int
    image_sha256: bytes
    image_format: int = 0
    counter: int = 0
    created: int = 0
    hardware: list = field(default_factory=list)  # (lowest, highest); an empty list allows any revision
    requires: tuple = None
    battery: int = None

    def encoded(self):
        fields = [(VERSION, self.version.encode()), (PRODUCT, self.product.encode())]
        if self.battery is not None:
            fields.append((BATTERY, bytes([self.battery])))
        if self.hardware:
            fields.append((HARDWARE, b"".join(struct.pack("<HH", *pair) for pair in self.hardware)))
        if self.requires:
            fields.append((REQUIRES, struct.pack("<III", *self.requires)))
        tail = b"".join(struct.pack("<HH", kind, len(value)) + value for kind, value in sorted(fields))
        head = struct.pack("<4sBBHIIIIQ", b"OTAF", 2, self.image_format, 64 + len(tail), self.image_size, 0, self.counter, 0, self.created)
        return head + self.image_sha256 + tail


def envelope(manifest, keys):
    """Returns the envelope: manifest and signatures."""
    covered = manifest.encoded()
    entries = [struct.pack("<BxH8s", ED25519, 64, key_id(raw_public(key))) + key.sign(covered) for key in keys]
    entries.sort(key=lambda entry: entry[4:12])
    return covered + struct.pack("<B3x", len(entries)) + b"".join(entries)


def bundle(image, product, version, keys=(EXAMPLE_KEY,), **more):
    manifest = Manifest(product, version, len(image), sha256(image), **more)
    return envelope(manifest, keys) + image


def need(condition, what):
    if not condition:
        raise Malformed(what)


def parse_manifest(data):
    need(len(data) >= 64, "no room for the head")
    magic, version, image_format, size, image_size, zero, counter, zero_too, created = struct.unpack_from("<4sBBHIIIIQ", data)
    need(magic == b"OTAF" and version == 2, "magic or format version")
    need(image_format in (0, 1, 2), "image format")
    need(64 <= size <= 1024 and size == len(data), "manifest size")
    need(image_size > 0 and zero == 0 and zero_too == 0 and created <= LATEST, "head")
    found, position, last = {}, 64, -1
    while position < size:
        need(size - position >= 4, "field head")
        kind, length = struct.unpack_from("<HH", data, position)
        need(kind > last and size - position - 4 >= length, "field order or length")
        found[kind] = data[position + 4 : position + 4 + length]
        position, last = position + 4 + length, kind
    unknown = [kind for kind in found if kind & CRITICAL and kind not in (PRODUCT, HARDWARE, REQUIRES)]
    try:
        version = found.get(VERSION, b"").decode("ascii")
        product = found.get(PRODUCT, b"").decode("ascii")
        source = found.get(SOURCE, b"-").decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed("text") from error
    numbers(version)
    need(re.fullmatch(r"[A-Za-z0-9._-]{1,63}", product), "product")
    need(1 <= len(found.get(SOURCE, b"-")) <= 127 and not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in source), "source")
    hardware, battery, requires = [], None, None
    if HARDWARE in found:
        pairs = found[HARDWARE]
        need(len(pairs) % 4 == 0 and 1 <= len(pairs) // 4 <= 16, "hardware")
        hardware = list(struct.iter_unpack("<HH", pairs))
        need(all(low <= high for low, high in hardware), "hardware")
        need(all(one[1] + 1 < next_one[0] for one, next_one in zip(hardware, hardware[1:])), "hardware")
    if BATTERY in found:
        need(len(found[BATTERY]) == 1 and found[BATTERY][0] <= 100, "battery")
        battery = found[BATTERY][0]
    if REQUIRES in found:
        need(len(found[REQUIRES]) == 12, "requires")
        requires = struct.unpack("<III", found[REQUIRES])
    if unknown:
        raise UnknownCriticalField(hex(unknown[0]))
    return Manifest(product, version, image_size, data[32:64], image_format, counter, created, hardware, requires, battery)


def parse_envelope(data):
    """Returns (manifest's bytes, Manifest, [(algorithm, key id, signature)])."""
    need(len(data) >= 8, "no room for the head")
    size = struct.unpack_from("<H", data, 6)[0]
    need(len(data) >= size + 4, "no room for the signatures")
    covered, rest = data[:size], data[size:]
    manifest = parse_manifest(covered)
    count, *zeros = rest[:4]
    need(1 <= count <= 8 and not any(zeros), "signatures")
    signatures, start = [], 4
    for _ in range(count):
        need(len(rest) - start >= 12, "head of a signature")
        algorithm, zero, length, identifier = struct.unpack_from("<BBH8s", rest, start)
        need(zero == 0 and (length == LENGTHS[algorithm] if algorithm in LENGTHS else 1 <= length <= 8000), "signature's length")
        need(len(rest) - start - 12 >= length, "signature")
        need(not signatures or signatures[-1][1] < identifier, "order of the signatures")
        signatures.append((algorithm, identifier, rest[start + 12 : start + 12 + length]))
        start += 12 + length
    need(start == len(rest), "end of the envelope")
    return covered, manifest, signatures


def trusted(covered, signatures, public_keys):
    """Returns True if at least one signature by a trusted key is valid, and no signature by a trusted key is invalid."""
    known = {key_id(public): Ed25519PublicKey.from_public_bytes(public) for public in public_keys}
    held = 0
    for algorithm, identifier, signature in signatures:
        if identifier in known:
            if algorithm != ED25519:
                return False
            try:
                known[identifier].verify(signature, covered)
            except InvalidSignature:
                return False
            held += 1
    return held > 0


def split(data):
    """Returns the envelope and the image of a bundle."""
    size = struct.unpack_from("<H", data, 6)[0]
    end = size + 4
    for _ in range(data[size]):
        end += 12 + struct.unpack_from("<H", data, end + 2)[0]
    return data[:end], data[end:]
