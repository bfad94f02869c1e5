#!/usr/bin/env python3
"""Signs a file in minisign's format: minisign.py KEY FILE COMMENT

KEY is an Ed25519 private key in PEM, made by `otaflash keygen` or `openssl genpkey -algorithm ed25519`. The script writes the signature
to FILE.minisig. It prints the public key in minisign's form. openssl makes the signatures and asks for the passphrase of an encrypted
key. Without a terminal, put the passphrase in OTAFLASH_RELEASE_PASSPHRASE.

The algorithm is minisign's legacy algorithm "Ed": a plain Ed25519 signature of the file's bytes. minisign and signify can verify it, and
so can openssl without another tool.
Format: https://jedisct1.github.io/minisign/#signature-format
"""
import base64
import hashlib
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

# The SubjectPublicKeyInfo of an Ed25519 key (RFC 8410) is this header and the 32 bytes of the key.
header = bytes.fromhex("302a300506032b6570032100")
passphrase = ["-passin", "env:OTAFLASH_RELEASE_PASSPHRASE"] if "OTAFLASH_RELEASE_PASSPHRASE" in os.environ else []


def refuse(message, hint):
    print(f"release: {message}\nhint: {hint}", file=sys.stderr)
    sys.exit(77)


def openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], stdout=subprocess.PIPE)
    if done.returncode:
        refuse("openssl cannot read the release key", "use an Ed25519 private key and its passphrase: otaflash keygen NAME")
    return done.stdout


def public_key(key):
    info = openssl("pkey", "-in", key, *passphrase, "-pubout", "-outform", "DER")
    if len(info) != 44 or not info.startswith(header):
        refuse(f"{key} is not an Ed25519 key", "make one: otaflash keygen NAME")
    return info[len(header):]


def sign(key, message):
    with tempfile.NamedTemporaryFile() as file:
        file.write(message)
        file.flush()
        return openssl("pkeyutl", "-sign", "-inkey", key, *passphrase, "-rawin", "-in", file.name)


def encoded(*parts):
    return base64.b64encode(b"".join(parts)).decode()


def main(key, file, comment):
    try:
        mode = os.stat(key).st_mode
    except OSError as error:
        refuse(f"{key}: {error.strerror}", "set the path of the release key: OTAFLASH_RELEASE_KEY=PATH scripts/release")
    if stat.S_ISREG(mode) and mode & 0o077:
        refuse(f"{key}: other users can read or change the release key", f"chmod 600 {key}")
    if not comment.isprintable():
        refuse("the trusted comment contains control characters", "use one line of printable text")
    raw = public_key(key)
    identity = hashlib.sha256(raw).digest()[:8]
    signature = sign(key, pathlib.Path(file).read_bytes())
    # The second signature covers the first signature and the comment.
    whole = sign(key, signature + comment.encode())
    pathlib.Path(file + ".minisig").write_text(
        f"untrusted comment: signature by the key {identity.hex()}\n{encoded(b'Ed', identity, signature)}\n"
        f"trusted comment: {comment}\n{encoded(whole)}\n")
    print(encoded(b"Ed", identity, raw))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: minisign.py KEY FILE COMMENT")
    main(*sys.argv[1:])
