"""The example ble-chat: two of its peers, and each role with a peer on another stack."""

import asyncio
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import bluez
import chat_bumble
import picture
import silent
from cases import case
from chat_bumble import DISCOVERY, HELLO, MALFORMED, NOT_EXPECTED, OTHER_SESSION, SERVICE, position, text
from lab import Process, until
from peripheral_bumble import INSUFFICIENT_AUTHENTICATION
from screen import Screen

NAME = "ble-chat"
UNAUTHENTICATED = "the pairing is not authenticated, because the device has no display and no keyboard"


class Peer(Process):
    """A running ble-chat in its line mode. It ends with the case."""

    def __init__(self, lab, adapter, name, *options, environment=None):
        words = [lab.example(NAME), "--adapter", adapter, "--name", name, *options]
        super().__init__(words, name, stdin=subprocess.PIPE, bufsize=1, env=environment or lab.environment)
        self.name, self.seen = name, 0
        lab.stack.callback(self.process.kill)
        self.hears(f"{name} is in range of other peers over {adapter}")

    def writes(self, *lines):
        for line in lines:
            print(f"{self.name} writes {line[:60]}", flush=True)
            self.process.stdin.write(line + "\n")

    def hears(self, line, seconds=15):
        """Waits for this line after the lines that were heard before, and returns its time."""

        def found():
            for number in range(self.seen, len(self.out.lines)):
                if self.out.lines[number] == line:
                    self.seen = number + 1
                    return self.out.times[number]

        return until(found, seconds, f"{self.name} shows {line[:100]!r}; it shows {[it[:100] for it in self.out.lines[self.seen:]]}")

    def hears_question(self):
        """Returns the number that the next question shows."""
        begin = "Does the other device show "
        asked = until(lambda: [it for it in self.out.lines[self.seen :] if it.startswith(begin)], 15, f"a question to {self.name}")[0]
        self.hears(asked)
        return asked.removeprefix(begin)[:6]

    def quits(self):
        self.writes("/quit")
        assert self.wait(10) == 0
        assert self.err.text() == "", self.err.text()

    def fails(self, count):
        """Waits until the program ends, because this number of messages has not arrived."""
        assert self.wait(60) == 1
        assert self.err.text() == f"Error: {undelivered(count)}", self.err.text()


def undelivered(count):
    subject, them = (f"{count} messages were", "them") if count > 1 else ("1 message was", "it")
    return f"{subject} not delivered; hint: send {them} again when the other peer is in range"


class Bus:
    """Forwards the connections of programs to the system bus. `change` returns the bytes to send to the bus."""

    def __init__(self, lab):
        self.change, self.sockets, self.listener = lambda data: data, [], socket.socket(socket.AF_UNIX)
        self.listener.bind(str(lab.folder / "bus"))
        self.listener.listen()
        self.environment = {**lab.environment, "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={lab.folder / 'bus'}"}
        self.run(self.accept)

    def run(self, target, *words):
        threading.Thread(target=target, args=words, daemon=True).start()

    def accept(self):
        while True:
            program, _ = self.listener.accept()
            bus = socket.socket(socket.AF_UNIX)
            bus.connect("/run/dbus/system_bus_socket")
            self.sockets += [program, bus]
            self.run(self.forward, program, bus, lambda data: self.change(data))
            self.run(self.forward, bus, program, lambda data: data)

    def forward(self, source, target, change):
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(change(data))

    def close(self):
        for it in self.sockets:
            it.shutdown(socket.SHUT_RDWR)


def address(adapter):
    return bluez.ask(lambda bus: bus.objects())[f"/org/bluez/{adapter}"][bluez.ADAPTER]["Address"]


def meet(lab, *options):
    """Starts Bob on hci0 and Alice on hci1. Each one sees the other one."""
    bob, alice = Peer(lab, "hci0", "Bob", *options), Peer(lab, "hci1", "Alice", *options)
    alice.hears(f"In range: {address('hci0')} Bob")
    bob.hears(f"In range: {address('hci1')} Alice")
    return alice, bob


@case(limit=60, example=NAME)
def example_chat(lab):
    """Two peers exchange messages. Each one is once the peripheral and once the central. A signal and /quit end them."""
    alice, bob = meet(lab)
    for caller, answerer in ((alice, bob), (bob, alice)):
        caller.writes(answerer.name, "hello", "Grüße, 你好 👋")
        answerer.hears(f"< {caller.name}: hello")
        answerer.hears(f"< {caller.name}: Grüße, 你好 👋")
        caller.hears(f"Delivered: message {2 if caller is alice else 3} to {answerer.name}")
        answerer.writes("hi")
        caller.hears(f"< {answerer.name}: hi")
        answerer.hears(f"Delivered: message {1 if caller is alice else 3} to {caller.name}")
        if caller is alice:
            alice.writes("/leave")
            bob.hears("The other peer left the chat: Alice.")
    bob.signal(signal.SIGTERM)
    alice.hears("The other peer left the chat: Bob.")
    assert bob.wait(10) == 130 and bob.err.text() == ""
    alice.quits()
    lab.assert_nothing_left()
    for adapter in "hci0", "hci1":
        assert bluez.ask(lambda bus: bus.advertisements(adapter)) == 0


@case(limit=60, example=NAME)
def example_chat_cut(lab):
    """A message of 64 KiB arrives whole in each direction, although the link is lost in the middle. A message that was written
    without bluetoothd arrives after its restart. Nothing is shown twice."""
    alice, bob = meet(lab)
    alice.writes("Bob", "hello")
    bob.hears("< Alice: hello")
    alice.hears("Delivered: message 1 to Bob")
    for number, (sender, receiver, pause) in enumerate(((alice, bob, 0.3), (bob, alice, 1.5)), 1):
        text = ("你好 Grüße " * 5000).encode()[: 65536 - 5].decode(errors="ignore") + f"end {number}"
        sender.writes(text)
        begun = time.monotonic()
        time.sleep(pause)
        lab.air("cut")
        receiver.hears(f"Link lost: the {'other peer' if receiver is alice else 'device'} disconnected.")
        receiver.hears(f"< {sender.name}: {text}", seconds=20)
        sender.hears(f"Delivered: message {3 - number} to {receiver.name}")
        lab.figure(f"{len(text.encode())} bytes with a lost link after {time.monotonic() - begun:.1f} s")
    lab.bluetoothd("stop")
    alice.writes("sent without bluetoothd")
    lab.bluetoothd("start")
    bob.hears("< Alice: sent without bluetoothd", seconds=30)
    alice.writes("/quit")
    bob.hears("The other peer left the chat: Alice.")
    received = [line.removeprefix("< Alice: ")[:6] for line in bob.out.lines if line.startswith("< Alice: ")]
    assert received == ["hello", "你好 Grü", "sent w"], received
    assert len([it for it in alice.out.lines if it.startswith("< Bob: ")]) == 1


def on_bumble(script, limit=50):
    """Runs a script with a Bumble peer on hci1."""

    async def run():
        it = await chat_bumble.Peer().open("hci1")
        try:
            await asyncio.wait_for(script(it), limit)
        finally:
            await it.close()

    asyncio.run(run())


async def shows(peer, *lines):
    """Waits for these lines while Bumble runs."""
    for line in lines:
        await asyncio.to_thread(peer.hears, line)


@case(limit=60, example=NAME)
def example_chat_with_a_peripheral_on_another_stack(lab):
    """Our peer answers the call of a Bumble peer, which cuts its text after each byte. A gap in a message ends the chat."""
    bob = Peer(lab, "hci0", "Bob")

    async def script(it):
        await it.advertise()
        await shows(bob, f"In range: {it.address} Bumble")
        _, identity = await it.find(DISCOVERY)
        await it.advertise(called=identity)
        assert await it.greet() == position(1)
        await shows(bob, "Chat with Bumble.", "Connected to Bumble.")
        data = "Grüße 👋".encode()
        await it.send(*(text(1, at, data[at : at + 1], at == len(data) - 1) for at in range(len(data))))
        assert await it.receive() == position(2)
        await shows(bob, "< Bumble: Grüße 👋")
        bob.writes("hi " + "é" * 400)
        assert await it.receive_text(1) == ("hi " + "é" * 400).encode()
        await shows(bob, "Delivered: message 1 to Bumble")
        await it.send(text(2, 1, b"gap", True))
        await shows(bob, "The chat ended: a frame has a wrong position. Use the same version on both machines.")
        await it.end()

    on_bumble(script)
    bob.quits()
    lab.assert_nothing_left()


@case(limit=60, example=NAME)
def example_chat_with_a_central_on_another_stack(lab):
    """Our peer calls a Bumble peer, resumes its message after a lost link, and refuses a malformed frame with an ATT error."""
    bob = Peer(lab, "hci0", "Bob")
    message = "0123456789" * 200

    async def script(it):
        await it.advertise()
        await shows(bob, f"In range: {it.address} Bumble")
        bob.writes("Bumble", message)
        address, identity = await it.find(SERVICE)
        assert identity == it.identity
        await it.connect(address)
        assert await it.greet() == position(1)
        await shows(bob, "Connected to Bumble.")
        first = await it.receive()
        assert first[:7] == text(1, 0, b"", False), first
        await it.disconnect()
        await shows(bob, "Link lost: the other peer disconnected.")
        await it.find(SERVICE)
        await it.connect(address)
        assert await it.greet(at=position(1, 1300)) == position(1)
        assert await it.receive_text(1, offset=1300) == message[1300:].encode()
        await it.send(text(1, 0, b"hello", True))
        assert await it.receive() == position(2)
        await shows(bob, "Delivered: message 1 to Bumble", "< Bumble: hello")
        assert await it.is_refused(b"\x07") == MALFORMED
        await shows(bob, "The chat ended: a frame is malformed. Use the same version on both machines.")

    on_bumble(script)
    bob.quits()


@case(limit=60, example=NAME)
def example_chat_intruder(lab):
    """A peer that only advertises our session, and one that connects to a peer in our session, get no message in either role."""
    bob = Peer(lab, "hci0", "Bob")

    async def script(it):
        it.session = "other"
        await it.advertise(session="public")
        await shows(bob, f"In range: {it.address} Bumble")
        address, identity = await it.find(DISCOVERY)
        await it.advertise(called=identity, session="public")
        hello = await it.receive()
        await it.send(it.hello(), it.proof(False, hello[2:]))
        await shows(bob, "Link refused: the peers do not have the same --session.")
        await it.end()
        # Bob does not answer the second call.
        await it.advertise(called=identity, session="public")
        await asyncio.sleep(1.5)
        assert it.ended.is_set() and it.frames.empty()

        await it.connect(address)
        assert await it.is_refused(it.hello()) == NOT_EXPECTED
        await it.end()
        await it.advertise(session="public")
        bob.writes("Bumble", "secret")
        await it.find(SERVICE)
        await it.connect(address)
        await it.send(it.hello())
        hello, _ = await it.receive(), await it.receive()
        assert await it.is_refused(it.proof(True, hello[2:])) == OTHER_SESSION
        await it.end()
        assert it.frames.empty()

    on_bumble(script)
    bob.writes("/quit")
    bob.fails(1)
    assert not [it for it in bob.out.lines if it.startswith(("Connected", "<", "Delivered"))]


@case(limit=90, example=NAME)
def example_chat_stranger(lab):
    """A stranger calls first, with the tag and the identity of the real caller, and stays silent. The real caller gets through, also
    after a lost link, while the stranger continues."""
    lab.air("plug", 3)
    until(Path("/sys/class/bluetooth/hci2").exists, 10, "hci2")
    lab.power("hci2", True)
    bob, here, there = Peer(lab, "hci0", "Bob"), address("hci0"), address("hci2")

    async def script(it):
        # The session is public for everybody near: a stranger copies the tag of an advertisement.
        it.session = "other"
        await it.advertise(session="public")
        await shows(bob, f"In range: {it.address} Bumble")
        _, identity = await it.find(DISCOVERY)
        alice = await asyncio.to_thread(Peer, lab, "hci2", "Alice")
        await shows(bob, f"In range: {there} Alice")
        _, it.identity = await it.find(DISCOVERY, name="Alice")
        await it.advertise(session="public")
        await it.advertise(called=identity, session="public")
        hello = await it.receive()
        assert hello[0] == HELLO
        await shows(alice, f"In range: {here} Bob")
        begun = time.monotonic()
        alice.writes("Bob", "hello")
        await asyncio.to_thread(bob.hears, "< Alice: hello", 40)
        lab.figure(f"the message of the real caller after {time.monotonic() - begun:.1f} s")
        await asyncio.to_thread(lab.air, "cut")
        await asyncio.to_thread(alice.hears, "Link lost: the other peer disconnected.")
        await it.advertise(called=identity, session="public")
        begun = time.monotonic()
        alice.writes("again")
        await asyncio.to_thread(bob.hears, "< Alice: again", 30)
        lab.figure(f"after a lost link, {time.monotonic() - begun:.1f} s")
        await asyncio.to_thread(alice.quits)

    on_bumble(script, 80)
    bob.hears("The other peer left the chat: Alice.")
    bob.quits()


@case(limit=200, example=NAME)
def example_chat_silent_central(lab):
    """A peer ends the link of a central that writes nothing for 60 s, and not a link that another program has opened."""
    bob = Peer(lab, "hci1", "Bob")
    bob.address = address("hci1")
    silent.assert_ended(lab, bob, 60)
    bob.quits()


@case(limit=30, example=NAME)
def example_chat_without_bus(lab):
    """A peer that loses the connection to the bus ends with an error."""
    bus = Bus(lab)
    bob = Peer(lab, "hci1", "Bob", environment=bus.environment)
    bus.close()
    assert bob.wait(10) == 1
    assert bob.err.text() == "Error: the bus: the bus closed the connection; hint: systemctl status dbus, and start this program again", bob.err.text()


@case(limit=60, example=NAME)
def example_chat_advertisement(lab):
    """A failed change of the advertisement does not end the program, which repeats the change. Then the message arrives."""
    bus, bob = Bus(lab), Peer(lab, "hci0", "Bob")
    alice = Peer(lab, "hci1", "Alice", environment=bus.environment)
    alice.hears(f"In range: {address('hci0')} Bob")
    # bluetoothd refuses an advertisement with an unknown type.
    bus.change = lambda data: data.replace(b"\0peripheral\0", b"\0peripheraX\0")
    alice.writes("Bob", "hello")
    begin = "The advertisement failed and is repeated: "
    until(lambda: any(it.startswith(begin) for it in alice.out.lines), 10, "a failed change")
    time.sleep(6)
    bus.change = lambda data: data
    bob.hears("< Alice: hello", 20)
    assert len([it for it in alice.out.lines if it.startswith(begin)]) == 1, alice.out.lines
    alice.quits()
    bob.quits()


@case(limit=90, example=NAME)
def example_chat_leave_without_link(lab):
    """A peer that leaves while the link is lost brings its goodbye with the next link. The other peer reports what it has not delivered."""
    alice, bob = meet(lab)
    for leaver, other in ((alice, bob), (bob, alice)):
        alice.writes("Bob", "hello")
        bob.hears("< Alice: hello")
        alice.hears("Connected to Bob.")
        lab.air("set", "range", 0)
        for peer, end in ((alice, "other peer"), (bob, "device")):
            peer.hears(f"Link lost: the {end} disconnected.")
        other.writes("lost")
        leaver.writes("/leave")
        leaver.hears("You left the chat.")
        time.sleep(3)
        lab.air("set", "range", 1)
        other.hears(f"The other peer left the chat: {leaver.name}.", 30)
        other.hears(f"Not delivered: 1 message to {leaver.name}.")
        if leaver is alice:
            # The message arrives in the next chat.
            bob.writes("Alice")
            alice.hears("< Bob: lost", 30)
            alice.writes("/leave")
            bob.hears("The other peer left the chat: Alice.")
            time.sleep(7)
    alice.writes("/quit")
    alice.fails(1)
    bob.quits()


@case(limit=60, example=NAME)
def example_chat_secure(lab):
    """Both peers show the same number. They chat after both users have accepted it, also after a lost link, and not after a refusal."""
    # bluetoothd sends the questions for the peripheral to the agent of the program that has started last.
    alice, bob = meet(lab, "--secure")
    for answer in "no", "yes":
        alice.writes("Bob", f"hello after {answer}")
        numbers = [peer.hears_question() for peer in (alice, bob)]
        assert numbers[0] == numbers[1]
        alice.writes(f"{answer} {numbers[0]}")
        bob.writes(f"{answer} {numbers[0]}")
        if answer == "no":
            for peer in alice, bob:
                peer.hears("You refused the link.")
            assert not any("Connected" in line for line in alice.out.lines + bob.out.lines)
            # Bob answers the next call after he has received an advertisement without a call. bluetoothd scans again 5 s after the end
            # of the link, which takes 2 s.
            time.sleep(9)
    for number, answer in enumerate(("no", "yes"), 1):
        bob.hears(f"< Alice: hello after {answer}")
        alice.hears(f"Delivered: message {number} to Bob")
    lab.air("cut")
    bob.writes("hi")
    alice.hears("< Bob: hi")
    alice.quits()
    bob.quits()


@case(limit=60, example=NAME)
def example_chat_secure_on_another_stack(lab):
    """With --secure, our peer refuses a central without a bond and a pairing without a comparison, and compares numbers with Bumble."""
    from bumble.att import ATT_Error

    bob = Peer(lab, "hci0", "Bob", "--secure")

    async def script(it):
        await it.advertise()
        await shows(bob, f"In range: {it.address} Bumble")
        address, identity = await it.find(DISCOVERY)
        try:
            await it.connect(address)
        except ATT_Error as error:
            assert error.error_code == INSUFFICIENT_AUTHENTICATION, error
        else:
            raise AssertionError("Bob accepted a subscription without a bond")
        await it.disconnect()
        it.as_central = False
        it.pairs(shows_numbers=False)
        await it.advertise(called=identity)
        await shows(bob, f"No link: {UNAUTHENTICATED}.")
        assert it.frames.empty()
        it.pairs(shows_numbers=True)
        await it.end()
        await it.advertise(called=identity)
        number = await asyncio.to_thread(bob.hears_question)
        assert number == await asyncio.wait_for(it.numbers.get(), 5)
        bob.writes(f"yes {number}")
        assert await it.greet() == position(1)
        await shows(bob, "Connected to Bumble.")

    on_bumble(script)
    bob.quits()


@case(limit=60, example=NAME)
def example_chat_sessions(lab):
    """Peers of different sessions do not see each other, and wrong options are refused."""
    bob = Peer(lab, "hci0", "Bob", "--session", "red")
    alice = Peer(lab, "hci1", "Alice", "--session", "blue")
    time.sleep(2)
    alice.writes("Bob")
    alice.hears("No peer Bob is in range. Type /peers for the list.")
    alice.writes("/quit")
    alice.fails(1)
    bob.quits()
    assert len(alice.out.lines) == 2 and len(bob.out.lines) == 1
    assert lab.run_example(NAME, "--name", "", exit_code=64)[1].startswith("Error: '' is not a name of 1 to 20 bytes")
    assert lab.run_example(NAME, "--adapter", "hci9", exit_code=1)[1] == "Error: there is no adapter hci9; hint: bluetoothctl list shows the adapters"


@case(limit=60, example=NAME)
def example_chat_script(lab):
    """With standard input from a pipe, the program sends each line to the named peer, also a line without an end, and ends after the last
    one has arrived. If the other peer leaves before that, the exit code is 1."""
    alice = Peer(lab, "hci1", "Alice", "--with", "Bob")
    alice.writes("one")
    alice.process.stdin.write("two")
    alice.process.stdin.close()
    bob = Peer(lab, "hci0", "Bob")
    bob.hears("< Alice: one")
    bob.hears("< Alice: two")
    assert alice.wait(10) == 0
    bob.hears("The other peer left the chat: Alice.")

    alice = Peer(lab, "hci1", "Alice", "--with", address("hci0"))
    alice.writes("three")
    bob.hears("< Alice: three")
    alice.hears("Connected to Bob.")
    lab.air("set", "range", 0)
    alice.hears("Link lost: the other peer disconnected.")
    alice.writes("four", "five")
    alice.process.stdin.close()
    bob.writes("/leave")
    bob.hears("You left the chat.")
    time.sleep(3)
    lab.air("set", "range", 1)
    alice.hears("The other peer left the chat: Bob.", 30)
    alice.hears("Not delivered: 2 messages to Bob.")
    alice.fails(2)

    # After the end of a chat, a line is still a message for the named peer.
    alice = Peer(lab, "hci1", "Alice", "--with", "Bob")
    alice.writes("six")
    bob.hears("< Alice: six")
    bob.writes("/leave")
    alice.hears("The other peer left the chat: Bob.")
    alice.hears("The next line calls Bob again.")
    alice.writes("Bob")
    alice.process.stdin.close()
    bob.hears("< Alice: Bob", 30)
    assert alice.wait(10) == 0
    bob.quits()


@case(limit=60, example=NAME)
def example_chat_ends(lab):
    """The name is $USER if it is short enough. Control-C gives 130, or 1 if a typed line has no end. Control-D ends the program on a terminal."""
    for user, name in (("Ann", "Ann"), ("x" * 21, "peer"), ("", "peer")):
        words = [lab.example(NAME), "--adapter", "hci1"]
        peer = Process(words, "peer", stdin=subprocess.PIPE, bufsize=1, env={**lab.environment, "USER": user})
        until(lambda: peer.out.lines, 10, "the program is ready")
        assert peer.out.lines == [f"{name} is in range of other peers over hci1"], peer.out.lines
        if user == "Ann":
            peer.process.stdin.write("no end")
            peer.process.stdin.flush()
            time.sleep(0.5)
        peer.signal(signal.SIGINT)
        assert peer.wait(10) == (1 if user == "Ann" else 130)
        assert peer.err.text() == (f"Error: {undelivered(1)}" if user == "Ann" else ""), peer.err.text()
    screen = Screen(lab, lab.example(NAME), "--name", "Alice", "--adapter", "hci1", width=44, height=9)
    screen.until_has("Alice, no chat.")
    screen.type("x\x04")
    screen.until_has("> x")
    screen.type("\x7f\x04")
    screen.until_has("exit code 0")


@case(limit=60, example=NAME)
def example_chat_screen(lab):
    """A person chooses a peer, edits a line, chats, loses the link, leaves the chat and quits."""
    bob = Peer(lab, "hci0", "Bob")
    screen = Screen(lab, lab.example(NAME), "--name", "Alice", "--adapter", "hci1", width=44, height=9)
    title, list_of_peers = "Alice, no chat. Type the number of a peer.", f"1  {address('hci0')}  Bob"
    shown = [screen.until_shows(title, "", list_of_peers, "", ">")]
    screen.type("1")
    screen.press("Enter")
    screen.until_shows("Alice, not connected to Bob", "", "Chat with Bob.", "", ">")
    screen.type("Helo")
    screen.press("BSpace")
    screen.type("lo Bob 👋")
    screen.until_shows("Alice, not connected to Bob", "", "Chat with Bob.", "", "> Hello Bob 👋")
    screen.press("Enter")
    lines = ["Alice, connected to Bob", "", "Chat with Bob.", "Connected to Bob.", "Alice: Hello Bob 👋 ✓"]
    lines[3], lines[4] = lines[4], lines[3]
    screen.until_shows(*lines, "", ">")
    bob.hears("< Alice: Hello Bob 👋")
    bob.writes("Hello Alice")
    screen.until_shows(*lines, "< Bob: Hello Alice", "", ">")
    lab.air("set", "range", 0)
    lost = "Link lost: the other peer disconnected."
    screen.until_shows("Alice, not connected to Bob", "", *lines[2:], "< Bob: Hello Alice", lost, "", ">")
    screen.type("Still there?")
    screen.press("Enter")
    lines = [lines[4], "< Bob: Hello Alice", lost, "Alice: Still there? …"]
    shown.append(screen.until_shows("Alice, not connected to Bob", "", "Alice: Hello Bob 👋 ✓", *lines, "", ">"))
    lab.air("set", "range", 1)
    lines = [*lines[:3], "Alice: Still there? ✓", "Connected to Bob."]
    shown.append(screen.until_shows("Alice, connected to Bob", "", *lines, "", ">"))
    bob.hears("< Alice: Still there?")
    picture.write("ble-chat.svg", shown, width=44, height=9)
    screen.type("/leave")
    screen.press("Enter")
    screen.type("/quit")
    screen.press("Enter")
    screen.until_shows("exit code 0")
    bob.hears("The other peer left the chat: Alice.")
    bob.quits()
