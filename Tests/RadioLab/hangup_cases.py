"""The end of the examples with their terminal: SIGHUP, which the kernel sends when a terminal is closed, and keys that would stop a program."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import bluez
from cases import case
from lab import Process, until
from screen import Screen


def copy(lab, name):
    """Copies a program, because the other end of the link may have the same one."""
    return Path(shutil.copy(lab.example(name), lab.folder / name))


def running(program):
    """Returns the process numbers of a program. The cases do not wait for an output, because a closed terminal has none."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.path.samefile(folder / "exe", program):
                found.append(folder.name)
    return found


def assert_closed(lab, terminal, program):
    """Closes the terminal, and requires that the program ends and releases its link."""
    assert running(program), "the program runs"
    terminal.close()
    until(lambda: not running(program), 10, f"{program.name} ends after its terminal was closed")
    lab.assert_nothing_left()


@case(limit=60, example="ble-uart")
def example_hangup_uart(lab):
    """The link of a central ends when its terminal is closed, and SIGHUP ends a peripheral and its advertisement."""
    server = lab.serve_example("ble-uart", "serve", "--name", "Bench")
    program = copy(lab, "ble-uart")
    near = Screen(lab, "env", f"XDG_STATE_HOME={lab.folder}", program, "--adapter", "hci0", name="near")
    near.until_has("> Bench")
    near.type("\r")
    near.until_has("Hello → Hello ack")
    assert_closed(lab, near, program)
    until(lambda: any("disconnected" in line for line in server.lines), 10, "the link has ended")
    server.process.signal(signal.SIGHUP)
    assert server.process.wait(10) == 0
    assert bluez.ask(lambda bus: bus.advertisements()) == 0


@case(limit=60, example="ble-chat")
def example_hangup_chat(lab):
    """A peer whose terminal is closed leaves the chat with a goodbye, and its link ends."""
    bob = Process([lab.example("ble-chat"), "--name", "Bob", "--adapter", "hci1"], "Bob", stdin=subprocess.PIPE, bufsize=1, env=lab.environment)
    lab.stack.callback(bob.process.kill)
    until(lambda: bob.out.lines, 10, "Bob is ready")
    program = copy(lab, "ble-chat")
    near = Screen(lab, program, "--name", "Alice", "--with", "Bob", "--adapter", "hci0", name="near")
    near.until_has("Bob")
    near.type("hello\r")
    until(lambda: any("hello" in line for line in bob.out.lines), 15, "the message has arrived")
    assert_closed(lab, near, program)
    until(lambda: any("left" in line for line in bob.out.lines), 15, f"Alice leaves the chat: {bob.out.lines}")


@case(limit=60, example="ble-chat")
def example_hangup_keys(lab):
    """Control-Z and Control-\\ do not stop or kill a program with links, and Control-C restores the terminal."""
    for name, first in ("ble-chat", "no chat"), ("ble-uart", "Name filter"), ("ble-calculator", "Not connected"):
        settings = lab.folder / name
        program = f"stty -g >{settings}; {lab.example(name)} --adapter hci0; echo status $?; stty -g | diff - {settings} && echo restored"
        screen = Screen(lab, "bash", "-c", f"set -m; {program}", name=f"{name}-screen")
        screen.until_has(first)
        screen.type("\x1a\x1c")
        screen.until_has(first)
        screen.type("\x03")
        screen.until_has("status 130", "restored")
        screen.close()


@case(limit=30, example="ble-uart")
def example_hangup_ignored(lab):
    """SIGHUP has no effect on a program that nohup has started, and SIGTERM ends it."""
    words = ["nohup", lab.example("ble-uart"), "serve", "--adapter", "hci1"]
    server = Process(words, "server", env=lab.environment)
    until(lambda: len(server.out.lines) == 2, 10, "the peripheral is ready")
    server.signal(signal.SIGHUP)
    try:
        until(lambda: server.process.poll() is not None, 2, "")
    except AssertionError:
        server.signal(signal.SIGTERM)
        assert server.wait(10) == 0
    else:
        raise AssertionError("SIGHUP has ended the program")
