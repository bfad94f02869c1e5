#!/usr/bin/python3 -IS
"""Simulates the air between the lab's virtual radios. Its name in the guest is `radio-air`.

The controllers are those of btvirt, which does not simulate the air: it reports an advertisement once, at the moment a scan starts, and
transfers data without delay. This program runs between the kernel (/dev/vhci) and btvirt. It adds repeated advertisements, a signal
strength, connection events with a limited number of packets, lost events, and links that end when the radios are out of range.

  radio-air serve N              create N radios, from hci0, and serve them
  radio-air set NAME VALUE ...   change the settings of the air (the defaults are in parentheses):
      per_event  packets that a radio may send in a connection event; 0: no connection events, packets are sent at once (6)
      loss       lost connection events, as a fraction from 0 to 1 (0)
      range      1: in range; 0: out of range: no packet arrives, and links end at their supervision timeout (1)
      advert     seconds between two reports of one advertiser (0.1)
      rssi       signal strength in reports, dBm (-50)
      interval   connection interval of new connections in milliseconds; 0: the interval that the host requests (0)
      steady     1: a connection keeps the interval above when a host or a device updates it (0)
      share      1: the links of a central share its time on air; 0: each link has the air for itself (0)
      acl_len, acl_num   length in bytes and number of the controller's buffers; read when a radio is powered on (251, 24)
  radio-air away SECONDS         out of range for exactly this time, then in range again
  radio-air cut [N ...]          end every link now, or the links of hciN, with the reason of a supervision timeout (0x08)
  radio-air unplug, plug [N]     remove all radios from the machine; add the removed radios again, or make N radios in total
  radio-air stats                print for each radio: links, packets and bytes sent, connection events, lost events, and the last
                                 advertising interval in units of 0.625 ms

RADIO_LAB_AIR="per_event=4 loss=0.1" in the environment sets first values. RADIO_LAB_CAPTURE is the name of a file for all HCI traffic,
in btsnoop's format.
"""

import asyncio
import collections
import fcntl
import os
import random
import socket
import struct
import sys
import time

CONTROL, BTVIRT = "/run/radio-lab.air", "/tmp/bt-server-le"
DISCONNECT, RESET, READ_ADDRESS, BUFFER_SIZE = 0x0406, 0x0C03, 0x1009, 0x2002
ADVERTISE_PARAMETERS, ADVERTISE_ENABLE, SCAN_ENABLE, CONNECT = 0x2006, 0x200A, 0x200C, 0x200D
SET_RANDOM_ADDRESS = 0x2005
PARAMETER_REPLIES = 0x2020, 0x2021  # accept or refuse a peer's request for other connection parameters
CONNECTION_TIMEOUT = 0x08
COMPLETED_PACKETS = 0x13
FIRST_HANDLE = 42  # btvirt's first handle
# Seconds on air of a packet at 1 Mbit/s, without its payload: preamble, access address, header and CRC; the empty packet of the other
# side; and the two gaps of 150 us between the packets (Core Specification, volume 6, part B, 2.1 and 4.1.1).
PACKET_OVERHEAD = (10 * 8 + 10 * 8 + 2 * 150) * 1e-6
SCAN_RESPONSE = 4
HCIGETDEVINFO, HCI_UP = 0x800448D3, 1

air = dict(per_event=6, loss=0.0, range=1, advert=0.1, rssi=-50, interval=0, steady=0, share=0, acl_len=251, acl_num=24)
radios = []
capture = None
loop = asyncio.new_event_loop()


class Capture:
    """Writes all HCI traffic in btsnoop's monitor format, for btmon -r or Wireshark. A live btmon crashes on some ATT packets."""

    def __init__(self, name):
        self.file = open(name, "wb", buffering=0)
        self.file.write(b"btsnoop\0" + struct.pack(">II", 1, 2001))

    def add(self, index, outgoing, packet):
        opcode = {1: 2, 2: 4 if outgoing else 5, 4: 3}.get(packet[0])
        if opcode is not None and index is not None:
            microseconds = int(time.time() * 1e6) + 0x00E03AB44A676000  # since the year 0
            size = len(packet) - 1
            self.file.write(struct.pack(">IIIIQ", size, size, index << 16 | opcode, 0, microseconds) + packet[1:])


class Link:
    """The sending side of one radio in a connection. Packets wait here for a connection event."""

    def __init__(self, radio, handle, central, peer, interval, timeout):
        self.radio, self.handle, self.central, self.peer = radio, handle, central, peer
        self.queue, self.timer = collections.deque(), None  # (arrival time, packet)
        self.credit = 0.0  # seconds on air that this link may use, with `share`
        self.start = self.heard = self.due = loop.time()
        self.parameters(interval, timeout)

    def parameters(self, interval, timeout):
        self.interval, self.timeout = interval * 0.00125, timeout * 0.01

    def send(self, packet):
        self.queue.append((loop.time(), packet))
        self.plan()

    def plan(self):
        """Schedules the next event if packets wait. Events without packets are not simulated."""
        if self.queue and self.timer is None:
            past = int((loop.time() - self.start) / self.interval)
            self.due = self.start + (past + 1) * self.interval
            self.timer = loop.call_at(self.due, self.catch_up)

    def catch_up(self):
        """Runs the event that is due, and the events that this machine missed. Each sends the packets that waited at its scheduled time."""
        self.timer = None
        while self.queue and self.due <= loop.time() and self.radio.links.get(self.handle) is self:
            self.event()
            self.due += self.interval
        if self.radio.links.get(self.handle) is self:
            self.plan()

    def event(self):
        self.radio.events += 1
        if not air["range"] or random.random() < air["loss"]:
            self.radio.lost += 1  # the packets wait, because a link layer repeats packets and never drops them
            return
        self.heard = loop.time()
        shares = air["share"] and self.central
        if shares:
            # A radio has one antenna. Each event adds an equal part of the interval to the credit of an active link. A packet may exceed
            # the credit; the next events of the link then have less. So the links share the air fairly, with any offsets of their events.
            active = sum(1 for link in self.radio.links.values() if link.queue) or 1
            self.credit = min(self.credit + self.interval / active, self.interval)
        for _ in range(int(air["per_event"]) or len(self.queue)):
            if not self.queue or self.queue[0][0] > self.due:
                break
            if shares:
                if self.credit <= 0 or self.radio.free > self.due + 2 * self.interval:
                    break
                time_on_air = (len(self.queue[0][1]) - 5) * 8e-6 + PACKET_OVERHEAD
                self.credit -= time_on_air
                self.radio.free = max(self.radio.free, self.due) + time_on_air
            self.radio.transmit(self.queue.popleft()[1], self)

    def other_end(self):
        """Returns the other radio of this link and its side of the link, or None twice."""
        for radio in radios:
            if self.peer in (radio.address, radio.random_address):
                for link in radio.links.values():
                    if link.peer == self.radio.address:
                        return radio, link
        return None, None

    def check(self):
        """Ends the link if its supervision timeout is over."""
        silent = not air["range"] or (self.queue and air["loss"]) or not self.radio.up
        if not silent:
            self.heard = loop.time()
        elif loop.time() - self.heard > self.timeout:
            self.cut()

    def cut(self):
        self.radio.command(DISCONNECT, struct.pack("<HB", self.handle, CONNECTION_TIMEOUT))


class Radio:
    """A controller of btvirt and its hci device in the kernel."""

    def __init__(self):
        self.links, self.scan, self.told, self.seen = {}, None, False, set()
        self.free = 0.0  # the time at which the last packet of this radio leaves the air, with `share`
        self.asked = []  # commands without an answer from btvirt yet: (opcode, parameters; None: sent by this program)
        self.sent = self.sent_bytes = self.events = self.lost = self.advertising = 0
        self.rest = b""
        self.index, self.address, self.random_address, self.up = None, None, None, True
        self.btvirt = socket.socket(socket.AF_UNIX)
        self.btvirt.connect(BTVIRT)
        self.vhci = os.open("/dev/vhci", os.O_RDWR | os.O_NONBLOCK)
        os.write(self.vhci, b"\xff\x00")
        loop.add_reader(self.vhci, self.from_host)
        loop.add_reader(self.btvirt, self.from_btvirt)

    def unplug(self):
        loop.remove_reader(self.vhci)
        loop.remove_reader(self.btvirt)
        os.close(self.vhci)
        self.btvirt.close()
        self.links, self.scan = {}, None

    def command(self, opcode, data):
        """Sends a command of this program; the host does not receive the answer."""
        self.asked.append((opcode, None))
        self.btvirt.sendall(struct.pack("<BHB", 1, opcode, len(data)) + data)

    def transmit(self, packet, link):
        """Delivers a packet to the other end of the link. btvirt would deliver it with the sender's handle, which can be another link of
        the receiver."""
        self.sent, self.sent_bytes = self.sent + 1, self.sent_bytes + len(packet) - 5
        radio, other = link.other_end() if link else (None, None)
        if other is None:  # a radio without this program, such as a Bumble program on btvirt's socket
            self.btvirt.sendall(packet)
            return
        flags = struct.unpack_from("<H", packet, 1)[0] >> 12
        if flags & 3 == 0:  # the first fragment of a host is the first fragment of a controller
            flags |= 2
        copy = bytearray(packet)
        struct.pack_into("<H", copy, 1, other.handle | flags << 12)
        radio.to_host(copy)
        self.to_host(struct.pack("<BBBBHH", 4, COMPLETED_PACKETS, 5, 1, link.handle, 1))

    def to_host(self, packet):
        if capture:
            capture.add(self.index, False, packet)
        try:
            os.write(self.vhci, packet)
        except OSError:  # the host has powered the device off in the meantime
            pass

    def from_host(self):
        packet = bytearray(os.read(self.vhci, 4096))
        if capture:
            capture.add(self.index, True, packet)
        if packet[0] == 2:  # data
            link = self.links.get(struct.unpack_from("<H", packet, 1)[0] & 0xFFF)
            link.send(packet) if link and air["per_event"] else self.transmit(packet, link)
        elif packet[0] == 1:  # a command
            opcode = struct.unpack_from("<H", packet, 1)[0]
            if opcode == RESET and self.links:  # a host that starts again without a disconnection
                self.vanish()
                loop.call_later(max(link.timeout for link in self.links.values()), self.reset, packet)
                return
            if opcode == SET_RANDOM_ADDRESS:
                self.random_address = bytes(packet[4:10])
            if opcode == ADVERTISE_PARAMETERS:
                self.advertising = struct.unpack_from("<H", packet, 6)[0]  # the maximum
            if opcode == CONNECT and air["interval"]:  # the kernel keeps the first interval of a device and ignores later settings
                struct.pack_into("<HH", packet, 17, *[int(air["interval"] / 1.25)] * 2)
            self.asked.append((opcode, packet[4:]))
            if opcode == SCAN_ENABLE:
                self.scan, self.told, self.seen = packet if packet[4] else None, False, set()
                loop.call_later(0.03, self.scan_again, packet)
            self.btvirt.sendall(packet)
        elif packet[0] == 0xFF:  # the kernel's answer to our first write
            self.index = struct.unpack_from("<H", packet, 2)[0]

    def scan_again(self, scan):
        """Restarts the scan: btvirt reports advertisers only when a scan starts, and so early that the kernel drops the first report."""
        if self.scan is scan:
            self.told = True
            self.command(SCAN_ENABLE, b"\0\0")
            self.command(SCAN_ENABLE, scan[4:6])
            loop.call_later(air["advert"], self.scan_again, scan)

    def from_btvirt(self):
        data = self.rest + self.btvirt.recv(65536)
        while len(data) >= 5:  # no packet is shorter than 5 bytes
            size = 3 + data[2] if data[0] == 4 else 5 + struct.unpack_from("<H", data, 3)[0]
            if len(data) < size:
                break
            packet, data = bytearray(data[:size]), data[size:]
            if packet[0] == 4 and packet[1] == 0x3E and packet[3] == 0x04:
                # The peer's features. A real radio needs time on air to read them. If the kernel gets them at once, it reports the ATT
                # socket as connected before bluetoothd has read that the device is connected. bluetoothd then drops the link again.
                loop.call_later(0.05, self.to_host, packet)
            elif packet[0] != 4 or self.keep(packet):
                self.to_host(packet)
        self.rest = data

    def keep(self, packet):
        """Handles an event. Returns true if the host must receive it."""
        code, sub = packet[1], packet[3]
        if code in (0x0E, 0x0F):  # command complete, command status
            opcode = struct.unpack_from("<H", packet, 4 if code == 0x0E else 5)[0]
            mine = next((asked for asked in self.asked if asked[0] == opcode), None)
            if mine:
                self.asked.remove(mine)
                if mine[1] is None:
                    return False
                if opcode in PARAMETER_REPLIES and len(packet) == 7:  # btvirt sends only the status; the connection handle is added here
                    packet[2] += 2
                    packet += mine[1][:2]
            if opcode == READ_ADDRESS and code == 0x0E:
                self.address = bytes(packet[7:13])
            if opcode == BUFFER_SIZE:
                struct.pack_into("<HB", packet, 7, int(air["acl_len"]), int(air["acl_num"]))
        elif code == 0x05:  # disconnected
            self.links.pop(struct.unpack_from("<H", packet, 4)[0], None)
        elif code == 0x3E and sub == 0x01 and packet[4] == 0:  # connected
            handle, role = struct.unpack_from("<HB", packet, 5)
            if role == 1:  # btvirt reports the handle of the central, and itself uses its first handle for a peripheral with one link
                handle = FIRST_HANDLE
                struct.pack_into("<H", packet, 5, handle)
            interval, _, timeout = struct.unpack_from("<HHH", packet, 15)
            self.links[handle] = Link(self, handle, role == 0, bytes(packet[9:15]), interval, timeout)
        elif code == 0x3E and sub == 0x03 and packet[4] == 0:  # new connection parameters
            handle, interval, _, timeout = struct.unpack_from("<HHHH", packet, 5)
            if handle in self.links:
                steady = int(air["interval"] / 1.25) if air["steady"] else 0
                self.links[handle].parameters(steady or interval, timeout)
        elif code == 0x3E and sub == 0x02:  # an advertising report
            packet[-1] = int(air["rssi"]) & 0xFF
            report = bytes(packet[5:-1])
            if not (self.scan and self.told and air["range"]) or (self.scan[5] and report in self.seen):
                return False
            if report[0] != SCAN_RESPONSE:  # A real controller also reports the response to new data. The kernel waits for this response.
                self.seen -= {it for it in self.seen if it[0] == SCAN_RESPONSE and it[1:8] == report[1:8]}
            self.seen.add(report)
        return True

    def look(self):
        """Detects that a host with a user channel was killed: the kernel closes the device, but sends no command to the controller."""
        if self.index is None:
            return
        info = bytearray(struct.pack("<H", self.index) + bytes(126))
        try:
            with socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW, socket.BTPROTO_HCI) as device:
                fcntl.ioctl(device, HCIGETDEVINFO, info)
        except OSError:
            return
        was, self.up = self.up, bool(struct.unpack_from("<I", info, 16)[0] & HCI_UP)
        if was and not self.up:
            self.vanish()

    def vanish(self):
        self.scan = None
        self.command(ADVERTISE_ENABLE, b"\0")
        self.command(SCAN_ENABLE, b"\0\0")

    def reset(self, packet):
        """Cuts the links before the reset: btvirt would drop the links of this radio without a report to the other radios."""
        for link in list(self.links.values()):
            link.cut()
        self.asked.append((RESET, b""))
        self.btvirt.sendall(packet)


def set_range(value):
    """Changes the range. When the radios go out of range, the supervision timeouts start now."""
    if air["range"] and not value:
        for link in [link for radio in radios for link in radio.links.values()]:
            link.heard = loop.time()
    air["range"] = value


def control(server, count):
    text, sender = server.recvfrom(4096)
    words, answer = text.decode().split(), "ok"
    numbers = [int(word) for word in words[1:] if word.isdigit()]
    if words[:1] == ["cut"] and len(numbers) == len(words) - 1:
        addresses = {radio.address for radio in radios if radio.index in numbers or not numbers}
        for link in [link for radio in radios for link in radio.links.values() if link.central]:
            if not numbers or link.peer in addresses:
                link.cut()
    elif words == ["stats"]:
        answer = "\n".join(
            f"hci{radio.index} links {len(radio.links)} packets {radio.sent} bytes {radio.sent_bytes} "
            f"events {radio.events} lost {radio.lost} advertising {radio.advertising}"
            for radio in radios
        )
    elif words == ["unplug"]:
        while radios:
            radios.pop().unplug()
    elif words[:1] == ["plug"] and len(numbers) == len(words) - 1 < 2:
        wanted = numbers[0] if numbers else count
        while len(radios) > wanted:
            radios.pop().unplug()
        radios.extend(Radio() for _ in range(wanted - len(radios)))
    elif words[:1] == ["away"] and len(words) == 2:
        set_range(0)
        loop.call_later(float(words[1]), set_range, 1)
    elif words[:1] == ["set"] and len(words) % 2 and set(words[1::2]) <= set(air):
        changes = dict(zip(words[1::2], map(float, words[2::2])))
        set_range(changes.pop("range", air["range"]))
        air.update(changes)
    else:
        answer = "unknown command; run radio-air without arguments for help"
    server.sendto(answer.encode(), sender)


async def serve(count):
    global capture
    if os.environ.get("RADIO_LAB_CAPTURE"):
        capture = Capture(os.environ["RADIO_LAB_CAPTURE"])
    air.update((name, float(value)) for name, value in (word.split("=") for word in os.environ.get("RADIO_LAB_AIR", "").split()))
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.bind(CONTROL)
    loop.add_reader(server, control, server, count)
    radios.extend(Radio() for _ in range(count))
    while True:
        await asyncio.sleep(0.1)
        for radio in radios:
            radio.look()
            for link in list(radio.links.values()):
                if link.central or not radio.up:
                    link.check()


def main(words):
    if words[:1] == ["serve"] and len(words) == 2:
        loop.run_until_complete(serve(int(words[1])))
    elif words:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        client.bind("")  # the kernel chooses a name, to which the answer is sent
        client.sendto(" ".join(words).encode(), CONTROL)
        answer = client.recv(4096).decode()
        print(answer)
        return 64 if answer.startswith("unknown command") else 0
    else:
        print(__doc__)
        return 64


sys.exit(main(sys.argv[1:]))
