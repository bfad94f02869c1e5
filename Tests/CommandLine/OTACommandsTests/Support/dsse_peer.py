"""The libraries securesystemslib and in-toto-attestation as peers of attest and verify.

dsse_peer.py verify FILE KEY.pub.pem...         prints 'accepted' or 'refused' for each line of FILE, with its signers and the predicate type
dsse_peer.py sign STATEMENT KEYID=KEY.pem... [--url-safe]   prints an envelope of the file STATEMENT
"""

import base64
import json
import sys

from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"


def read(path):
    with open(path, "rb") as file:
        return file.read()


def verify(path, key_paths):
    for line in read(path).splitlines():
        document = json.loads(line)
        key_id = document["signatures"][0]["keyid"]
        keys = [SSlibKey.from_crypto(load_pem_public_key(read(key)), keyid=key_id) for key in key_paths]
        envelope = Envelope.from_dict(document)
        assert envelope.payload_type == PAYLOAD_TYPE
        try:
            signers = list(envelope.verify(keys, 1))
        except VerificationError:
            print("refused")
            continue
        statement = json_format.Parse(envelope.payload, statement_pb2.Statement())
        Statement.copy_from_pb(statement).validate()
        print("accepted", *signers, statement.predicate_type)


def sign(path, arguments):
    envelope = Envelope(read(path), PAYLOAD_TYPE, {})
    for argument in arguments:
        if argument == "--url-safe":
            continue
        key_id, key = argument.split("=", 1)
        private = load_pem_private_key(read(key), None)
        envelope.sign(CryptoSigner(private, SSlibKey.from_crypto(private.public_key(), keyid=key_id)))
    document = envelope.to_dict()
    if "--url-safe" in arguments:
        for place, name in [(document, "payload"), *((item, "sig") for item in document["signatures"])]:
            place[name] = base64.urlsafe_b64encode(base64.b64decode(place[name])).decode()
    print(json.dumps(document))


{"verify": verify, "sign": sign}[sys.argv[1]](sys.argv[2], sys.argv[3:])
