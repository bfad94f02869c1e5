"""Another NATS client, for the tests: peer.py URL COMMAND [ARGUMENT...]

Commands: create-bucket BUCKET HISTORY; put BUCKET KEY VALUE; get BUCKET KEY; delete BUCKET KEY; keys BUCKET;
create-store BUCKET; put-object BUCKET NAME SIZE; get-object BUCKET NAME; corrupt-object BUCKET NAME; operator FOLDER; credentials FOLDER SECONDS; key FILE; login-server FILE KIND...
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import socket
import sys
import time

import nats
import nkeys
from nats.js.api import KeyValueConfig


async def run(url, command, *arguments):
    connection = await nats.connect(url, max_reconnect_attempts=0)
    try:
        print(await COMMANDS[command](connection.jetstream(), *arguments))
    finally:
        await connection.close()


async def create_bucket(stream, bucket, history):
    await stream.create_key_value(KeyValueConfig(bucket=bucket, history=int(history)))
    return "ok"


async def put(stream, bucket, key, value):
    return await (await stream.key_value(bucket)).put(key, value.encode())


async def get(stream, bucket, key):
    entry = await (await stream.key_value(bucket)).get(key)
    return f"{entry.revision} {entry.value.decode()}"


async def delete(stream, bucket, key):
    return await (await stream.key_value(bucket)).delete(key)


async def keys(stream, bucket):
    return " ".join(sorted(await (await stream.key_value(bucket)).keys()))


async def create_store(stream, bucket):
    await stream.create_object_store(bucket)
    return "ok"


def content(size):
    """The bytes that ObjectStoreTests.content also returns."""
    return bytes((index * 31 + index // 251) & 0xFF for index in range(size))


async def put_object(stream, bucket, name, size):
    info = await (await stream.object_store(bucket)).put(name, content(int(size)))
    return f"{info.size} {info.chunks} {info.digest}"


async def get_object(stream, bucket, name):
    found = await (await stream.object_store(bucket)).get(name)
    return f"{len(found.data)} {hashlib.sha256(found.data).hexdigest()}"


async def corrupt_object(stream, bucket, name):
    """Changes one bit of the digest in the description of an object."""
    subject = f"$O.{bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"
    stored = json.loads((await stream.get_last_msg(f"OBJ_{bucket}", subject)).data)
    digest = bytearray(base64.urlsafe_b64decode(stored["digest"].removeprefix("SHA-256=")))
    digest[0] ^= 1
    stored["digest"] = "SHA-256=" + base64.urlsafe_b64encode(digest).decode()
    await stream.publish(subject, json.dumps(stored).encode(), headers={"Nats-Rollup": "sub"})
    return "ok"


COMMANDS = {
    "create-bucket": create_bucket, "put": put, "get": get, "delete": delete, "keys": keys, "create-store": create_store,
    "put-object": put_object, "get-object": get_object, "corrupt-object": corrupt_object,
}


def new_key(prefix):
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), prefix))


def encoded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def token(issuer, subject, claims, **more):
    """A JWT as NATS defines it: Ed25519, with the NKeys of the issuer and of the subject."""
    keys = {"iss": issuer.public_key.decode(), "sub": subject.public_key.decode()}
    body = {"jti": os.urandom(8).hex(), "iat": int(time.time()), "name": "test", "nats": claims | {"version": 2}, **keys, **more}
    text = ".".join(encoded(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, body))
    return f"{text}.{encoded(issuer.sign(text.encode()))}"


def operator(folder):
    """Writes operator.conf for the server, and the seed of the account that signs credentials."""
    operator, account = (new_key(kind) for kind in (nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT))
    limits = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
    account_token = token(operator, account, {"type": "account", "limits": limits})
    operator_token = token(operator, operator, {"type": "operator"})
    with open(f"{folder}/operator.conf", "w") as file:
        file.write(f"operator: {operator_token}\nresolver: MEMORY\n")
        file.write(f"resolver_preload: {{ {account.public_key.decode()}: {account_token} }}\n")
    with open(f"{folder}/account.seed", "wb") as file:
        file.write(account.seed)
    return "ok"


def credentials(folder, seconds):
    """Writes user.creds for a client. The credentials expire after some seconds."""
    with open(f"{folder}/account.seed", "rb") as file:
        account = nkeys.from_seed(file.read())
    user = new_key(nkeys.PREFIX_BYTE_USER)
    user_token = token(account, user, {"type": "user", "subs": -1, "data": -1, "payload": -1}, exp=int(time.time()) + int(seconds))
    with open(f"{folder}/user.creds", "w") as file:
        file.write(f"-----BEGIN NATS USER JWT-----\n{user_token}\n------END NATS USER JWT------\n\n"
                   f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n")
    return "ok"


def key(file):
    """Writes the seed of a new user, and returns the public key."""
    new = new_key(nkeys.PREFIX_BYTE_USER)
    with open(file, "w") as out:
        out.write(new.seed.decode() + "\n")
    return new.public_key.decode()


def login_server(file, *kinds):
    """A server that checks the login of the user in FILE, for one client at a time. Each connection has one of the given kinds, and the
    later ones have the last kind. other, zero: the first byte of the signature is another number than 0, or 0. late: the server sends the
    error of a late login. end, part: the server ends the connection, or sends only a part of its answer. tls: the server ends the connection
    during the TLS handshake. mute, mute-tls: the server does not answer the login or the TLS handshake. silent, ssh: the server sends no INFO,
    or another first message. After the login, the server ends the connection if it gets a PUB."""
    with open(file, "rb") as seeds:
        user = nkeys.from_seed(seeds.read().strip())
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"client connections on 127.0.0.1:{listener.getsockname()[1]}\nServer is ready", flush=True)
    number = 0
    while True:
        connection, _ = listener.accept()
        kind = kinds[min(number, len(kinds) - 1)]
        number += 1
        with connection, contextlib.suppress(ConnectionError):
            serve(connection.makefile("rwb"), kind, user)


UNFINISHED = {"late": b"-ERR 'Authentication Timeout'\r\n", "end": b"", "part": b"PO"}


def serve(stream, kind, user):
    if kind in ("silent", "ssh"):
        return answer(stream, "SSH-2.0-OpenSSH_9.2p1") if kind == "ssh" else None
    nonce = new_nonce(user, kind)
    info = {"server_id": "login", "version": "2.9.10", "max_payload": 1000, "headers": True, "auth_required": True, "nonce": nonce}
    answer(stream, f"INFO {json.dumps(info | {'tls_required': kind.endswith('tls')})}")
    if kind == "tls":
        return stream.read(1)
    if kind.startswith("mute"):
        return stream.read()
    for line in stream:
        if line.startswith(b"CONNECT"):
            signature = json.loads(line[8:]).get("sig", "")
            if base64.urlsafe_b64decode(signature + "==") != user.sign(nonce.encode()):
                return answer(stream, "-ERR 'Authorization Violation'")
        elif line.startswith(b"PING"):
            if kind in UNFINISHED:
                stream.write(UNFINISHED[kind])
                return stream.flush()
            answer(stream, "PONG")
        elif line.startswith(b"PUB"):
            return None


def new_nonce(user, kind):
    while True:
        nonce = encoded(os.urandom(11))
        if (user.sign(nonce.encode())[0] == 0) == (kind == "zero"):
            return nonce


def answer(stream, line):
    stream.write(line.encode() + b"\r\n")
    stream.flush()


if sys.argv[1] == "operator":
    print(operator(*sys.argv[2:]))
elif sys.argv[1] == "credentials":
    print(credentials(*sys.argv[2:]))
elif sys.argv[1] == "key":
    print(key(*sys.argv[2:]))
elif sys.argv[1] == "login-server":
    login_server(*sys.argv[2:])
else:
    asyncio.run(run(*sys.argv[1:]))
