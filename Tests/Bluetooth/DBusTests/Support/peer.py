"""The other program of the DBus tests, based on dbus-fast. It owns org.example.Peer until its standard input ends."""

import asyncio
import os
import sys
import textwrap

from dbus_fast import BusType, Message, MessageFlag, MessageType, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.errors import DBusError
from dbus_fast.service import PropertyAccess, ServiceInterface, dbus_method, dbus_property, dbus_signal

scope = globals()


async def call(destination, path, interface, member, signature="", body=(), **more):
    """Makes a call and returns the reply. Raises DBusError with the name of an error reply."""
    reply = await scope["bus"].call(
        Message(destination=destination, path=path, interface=interface, member=member, signature=signature,
                body=list(body), **more))
    if reply.message_type == MessageType.ERROR:
        raise DBusError(reply.error_name, str(reply.body[0]) if reply.body else "")
    return reply


class PatientSocket:
    """A socket that reports 0 sent bytes when it is full. dbus-fast treats BlockingIOError as a broken connection."""

    def __init__(self, socket):
        self.socket = socket

    def __getattr__(self, name):
        return getattr(self.socket, name)

    def send(self, data):
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0


async def emit(signals):
    """Sends signals, each given as (path, interface, member, signature, body)."""
    for signal in signals:
        await scope["bus"].send(Message.new_signal(*signal))


async def run(code, arguments):
    """Runs `code` as the body of an async function and returns the result as text."""
    local = {}
    exec("async def body(*arguments):\n" + textwrap.indent(textwrap.dedent(code), "    "), scope, local)
    return str(await local["body"](*arguments))


async def run_and_answer(message):
    code, *arguments = message.body
    try:
        reply = Message.new_method_return(message, "s", [await run(code, arguments)])
    except DBusError as error:
        reply = Message.new_error(message, error.type, error.text)
    except Exception as error:
        reply = Message.new_error(message, "org.example.Error.Python", repr(error))
    await scope["bus"].send(reply)


def handle(message):
    if message.message_type != MessageType.METHOD_CALL or message.interface != "org.example.Peer":
        return None
    if message.member == "Echo":
        return Message.new_method_return(message, message.signature, message.body, message.unix_fds)
    if message.member == "Describe":
        return Message.new_method_return(message, "s", [message.signature + " " + repr(message.body)])
    if message.member == "Make":
        signature, literal = message.body
        return Message.new_method_return(message, signature, eval(literal, scope))
    if message.member == "Fail":
        return Message.new_error(message, *message.body)
    if message.member == "Run":
        asyncio.get_running_loop().create_task(run_and_answer(message))
    return True  # No reply to other methods, such as "Never".


async def main():
    bus = await MessageBus(bus_address=sys.argv[1], negotiate_unix_fd=True).connect()
    bus._writer.sock = PatientSocket(bus._writer.sock)
    scope["bus"] = bus
    bus.add_message_handler(handle)
    await bus.request_name("org.example.Peer")
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
