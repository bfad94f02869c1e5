"""Writes the trusted Ed25519 public keys as a C header: keys.py HEADER PEM..."""

import base64
import hashlib
import re
import sys

# The start of a SubjectPublicKeyInfo with an Ed25519 key (RFC 8410).
PREFIX = bytes.fromhex("302a300506032b6570032100")


def read_key(path):
    try:
        text = open(path, encoding="ascii").read()
        der = base64.b64decode(re.search(r"-----BEGIN PUBLIC KEY-----(.*?)-----END PUBLIC KEY-----", text, re.S)[1])
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; 'otaflash keygen release' creates release.pub.pem")
    except (TypeError, ValueError):
        sys.exit(f"{path} is not a PEM file with a public key; use the file *.pub.pem")
    if len(der) != 44 or not der.startswith(PREFIX):
        sys.exit(f"{path} is not an Ed25519 public key; use the file *.pub.pem of 'otaflash keygen release'")
    return der[len(PREFIX):]


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
