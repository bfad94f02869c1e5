"""Writes the trusted Ed25519 public keys as a C header: keys.py HEADER PEM..."""

import base64
import hashlib
import re
import sys

# The start of a SubjectPublicKeyInfo with an Ed25519 key (RFC 8410).
PREFIX = bytes.fromhex("302a300506032b6570032100")
BLOCK = re.compile(r"-----BEGIN PUBLIC KEY-----(.*?)-----END PUBLIC KEY-----", re.S)
# The prime of the field, and a y coordinate of a point of order 8. The y of the points of small order are 0, 1, -1, and this y and -y.
P = 2**255 - 19
Y8 = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7


def read_key(path):
    try:
        text = open(path, encoding="ascii").read()
        blocks = BLOCK.findall(text)
        if len(blocks) > 1:
            sys.exit(f"{path} has {len(blocks)} keys; use a file for each key")
        der = base64.b64decode("".join(blocks[0].split()), validate=True)
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; 'otaflash keygen release' creates release.pub.pem")
    except (IndexError, ValueError):
        sys.exit(f"{path} is not a PEM file with a public key; use the file *.pub.pem")
    if len(der) != 44 or not der.startswith(PREFIX):
        sys.exit(f"{path} is not an Ed25519 public key; use the file *.pub.pem of 'otaflash keygen release'")
    key = der[len(PREFIX):]
    y = int.from_bytes(key, "little") % 2**255
    if y >= P or y in (0, 1, P - 1, Y8, P - Y8):
        sys.exit(f"{path} is not a usable Ed25519 public key: no signature by it is valid; use a key of 'otaflash keygen release'")
    return key


def array(data):
    return ", ".join(f"0x{byte:02x}" for byte in data)


def main(header, paths):
    keys = [read_key(path) for path in paths]
    if len(set(keys)) != len(keys):
        sys.exit("a key is listed twice")
    if not 1 <= len(keys) <= 16:
        sys.exit(f"{len(keys)} keys; 1 to 16 are possible")
    ids = b"".join(hashlib.sha256(key).digest()[:8] for key in keys)
    rows = ",\n".join(f"    {{{array(key)}}}" for key in keys)
    with open(header, "w", encoding="ascii") as file:
        file.write("/* Written by zephyr/keys.py. */\n")
        file.write(f"static const uint8_t public_keys[][32] = {{\n{rows}}};\n")
        file.write(f"static const uint8_t key_ids[] = {{{array(ids)}}};\n")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
