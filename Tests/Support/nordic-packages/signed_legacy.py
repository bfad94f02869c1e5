"""Runs adafruit-nrfutil with a loader of keys and a manifest that also work with Python 3."""
import binascii

import nordicsemi.dfu.manifest
import nordicsemi.dfu.signing as signing
from nordicsemi.__main__ import cli


class TextOfBytes:
    """In Python 3, hexlify returns bytes, which the tool cannot write as JSON."""

    @staticmethod
    def hexlify(value):
        return binascii.hexlify(value).decode()


def load_key(self, name):
    with open(name) as file:
        self.sk = signing.SigningKey.from_pem(file.read())


nordicsemi.dfu.manifest.binascii = TextOfBytes
signing.Signing.load_key = load_key
cli()
