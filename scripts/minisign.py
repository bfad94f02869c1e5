#!/usr/bin/env python3
"""Signs a file in minisign's format: minisign.py KEY FILE COMMENT

KEY is an Ed25519 private key in PEM, as `otaflash keygen` and `openssl genpkey -algorithm ed25519` make it. The signature is written to
FILE.minisig, and the public key, as minisign has it, to standard output. openssl makes the signatures, and asks for the passphrase of an
encrypted key; OTAFLASH_RELEASE_PASSPHRASE holds it where there is no terminal.

It is the legacy algorithm "Ed": a plain Ed25519 signature of the file's bytes. minisign, signify and openssl alone can verify it.
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

# SubjectPublicKeyInfo of an Ed25519 key (RFC 8410): this, and the 32 bytes of the key.
header = bytes.fromhex("302a300506032b6570032100")
passphrase = ["-passin", "env:OTAFLASH_RELEASE_PASSPHRASE"] if "OTAFLASH_RELEASE_PASSPHRASE" in os.environ else []


def refuse(message, hint):
    print(f"release: {message}\nhint: {hint}", file=sys.stderr)
    sys.exit(77)


def openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], stdout=subprocess.PIPE)
    if done.returncode:
        refuse("openssl cannot use the release key", "the key has to be an Ed25519 private key: otaflash keygen NAME")
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
        refuse(f"{key}: {error.strerror}", "name the release key: OTAFLASH_RELEASE_KEY=PATH scripts/release")
    if stat.S_ISREG(mode) and mode & 0o077:
        refuse(f"{key}: others than its owner can read or change the release key", f"chmod 600 {key}")
    if not comment.isprintable():
        refuse("the trusted comment is not one line of text", "give a comment without control characters")
    raw = public_key(key)
    identity = hashlib.sha256(raw).digest()[:8]
    signature = sign(key, pathlib.Path(file).read_bytes())
    # The comment is signed, too, together with the signature.
    whole = sign(key, signature + comment.encode())
    pathlib.Path(file + ".minisig").write_text(
        f"untrusted comment: signature by the key {identity.hex()}\n{encoded(b'Ed', identity, signature)}\n"
        f"trusted comment: {comment}\n{encoded(whole)}\n")
    print(encoded(b"Ed", identity, raw))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: minisign.py KEY FILE COMMENT")
    main(*sys.argv[1:])
