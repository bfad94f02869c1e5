#!/usr/bin/env python3
"""A device with the GATT OTA profile on the air. Its stack is Bumble, not BlueZ, and it has its own adapter of the radio lab.

device.py has its behaviour. It reports events as JSON on stdout, one object per line.
SIGKILL is a power cut. With --state, the device restarts with its durable state; without --state, it is a new device."""

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import time

import smp_buffers

SERVICE = "c7e10001-63a0-486d-9bcb-a18d79d9acd9"
UUIDS = {name: f"c7e1000{number}{SERVICE[8:]}" for number, name in enumerate(("info", "control", "data", "progress", "version"), 2)}
SMP_SERVICE, SMP_VALUE = "8d53dc1d-1db7-4cd3-868b-8a527460aa84", "da2e7828-fbce-4e01-ae9e-261174997c48"
NOTIFICATIONS_OFF, INSUFFICIENT_AUTHENTICATION, WRITE_NOT_PERMITTED = 0xFD, 0x05, 0x03
HCIDEVDOWN = 0x400448CA


def say(event, **more):
    print(json.dumps({"event": event, "time": round(time.monotonic(), 3), **more}), flush=True)


async def open_adapter(name):
    """Opens the adapter as a user channel. First switches it off, because bluetoothd may have switched it on again."""
    from bumble.transport import open_transport

    number = int(name.removeprefix("hci"))
    for attempt in range(50):
        with socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW, socket.BTPROTO_HCI) as control:
            fcntl.ioctl(control, HCIDEVDOWN, number)
        try:
            return await open_transport(f"hci-socket:{number}")
        except OSError as error:
            last = error
            await asyncio.sleep(0.1)
    raise last


class Arrivals:
    """Counts the values received on Data: all values, or only image values. `bytes` excludes the sequence numbers."""

    def __init__(self):
        self.values = self.bytes = 0
        self.first = self.last = self.first_bytes = 0

    def add(self, value):
        self.last = time.monotonic()
        if not self.values:
            self.first, self.first_bytes = self.last, len(value) - 2
        self.values, self.bytes = self.values + 1, self.bytes + max(0, len(value) - 2)

    def told(self):
        """Returns the counts. The rate covers the time from the first to the last value, without the first value's bytes."""
        seconds = self.last - self.first
        rate = round((self.bytes - self.first_bytes) / seconds) if seconds > 0 else 0
        return {
            "values": self.values, "bytes": self.bytes, "first": self.first, "seconds": round(seconds, 3), "bytes_per_second": rate,
        }


class Answers(asyncio.DatagramProtocol):
    """Receives UDP datagrams."""

    def __init__(self, take):
        self.take = take

    def datagram_received(self, data, address):
        self.take(data)


class Peripheral:
    def __init__(self, options):
        import device

        self.options = options
        identity = device.Identity(
            product=options.product, hardware=options.hardware, longest_value=options.longest, window=options.window,
            restart_seconds=options.restart, trial_seconds=options.trial, battery=options.battery,
            self_test_seconds=options.self_test_seconds,
        )
        if options.trust:
            from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

            identity.keys = [
                load_pem_public_key(open(name, "rb").read()).public_bytes(Encoding.Raw, PublicFormat.Raw) for name in options.trust
            ]
        flash = device.Flash(options.state, options.version, options.counter)
        self.device = device.Device(identity, flash, time.monotonic)
        self.states = device
        self.connection = None
        self.bonds = {}
        self.arrivals, self.image = Arrivals(), Arrivals()
        self.interval_asked = False
        self.restarts = False  # the SMP device behind this bridge restarts when the connection has ended
        self.seen_violations = 0
        self.buffers = self.answered = None

    # ---- Bluetooth stack

    async def open(self):
        from bumble import device as stack
        from bumble.core import UUID, AdvertisingData
        from bumble.gatt import Characteristic, CharacteristicValue, Service
        from bumble.hci import Address
        from bumble.host import Host
        from bumble.pairing import PairingConfig, PairingDelegate

        transport = await open_adapter(self.options.adapter)
        address = Address.generate_static_address() if self.options.new_address else Address("F0:F1:F2:F3:F4:F5")
        configuration = stack.DeviceConfiguration(name=self.options.name, address=address)
        if self.options.state:
            configuration.keystore = f"JsonKeyStore:{os.path.join(self.options.state, 'bonds')}"
        # The GATT service has Service Changed and the database hash. With them, a host notices that the attributes have moved.
        configuration.gatt_service_enabled = self.options.layout is None
        self.stack = stack.Device(config=configuration, host=Host(controller_source=transport.source, controller_sink=transport.sink))
        self.stack.gatt_server.max_mtu = self.options.mtu

        secret = self.options.passkey is not None
        if secret:
            self.stack.pairing_config_factory = lambda connection: PairingConfig(
                sc=True, mitm=True, bonding=True, delegate=passkey_display(PairingDelegate, self.options.passkey)
            )
        if self.options.no_pairing:
            self.stack.pairing_config_factory = lambda connection: PairingConfig(delegate=refusal(PairingDelegate))
        properties = Characteristic.Properties
        readable, writeable = Characteristic.READABLE, Characteristic.WRITEABLE
        if secret:
            writeable |= Characteristic.WRITE_REQUIRES_AUTHENTICATION

        def value(read=None, write=None):
            return CharacteristicValue(read=read and (lambda connection: read()), write=write)

        self.characteristics = {
            "info": Characteristic(UUIDS["info"], properties.READ, readable, value(lambda: self.device.info)),
            "control": Characteristic(UUIDS["control"], properties.WRITE | properties.NOTIFY, writeable, value(write=self.control)),
            "data": Characteristic(
                UUIDS["data"], properties.WRITE | properties.WRITE_WITHOUT_RESPONSE, writeable, value(write=self.data)
            ),
            "progress": Characteristic(
                UUIDS["progress"], properties.READ | properties.NOTIFY, readable, value(lambda: self.device.read_progress())
            ),
            "version": Characteristic(UUIDS["version"], properties.READ, readable, value(lambda: self.device.version())),
        }
        services = [] if self.options.no_service else [Service(SERVICE, list(self.characteristics.values()))]
        if self.options.smp:
            services = [await self.bridge(writeable, value)]
        if self.options.battery is not None:
            level = Characteristic("2A19", properties.READ, readable, value(lambda: bytes([self.options.battery])))
            services.append(Service("180F", [level]))
        self.stack.add_services(services)
        if self.options.layout == 1:
            self.move_attributes()

        fields = [(AdvertisingData.FLAGS, bytes([0x06]))]
        if not self.options.no_service:
            fields.append((AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS, UUID(SMP_SERVICE if self.options.smp else SERVICE).to_bytes()))
        self.stack.advertising_data = bytes(AdvertisingData(fields))
        self.stack.scan_response_data = bytes(AdvertisingData([(AdvertisingData.COMPLETE_LOCAL_NAME, self.options.name.encode())]))
        self.stack.on("connection", self.connected)
        await self.stack.power_on()
        for name, keys in await self.stack.keystore.get_all():
            self.bonds[name] = bool(keys.ltk and keys.ltk.authenticated)

    def move_attributes(self):
        """Reverses the order of the characteristics. Each service keeps its handles, so BlueZ does not discover its characteristics again."""
        from bumble.att import ATT_Error
        from bumble.gatt import CharacteristicDeclaration

        async def refuse(bearer, value):
            raise ATT_Error(WRITE_NOT_PERMITTED)

        server = self.stack.gatt_server
        services = list(server.services)
        for attributes in (server.services, server.attributes, server.attributes_by_handle, server.subscribers):
            attributes.clear()
        for service in services:
            service.characteristics = list(reversed(service.characteristics))
        self.stack.add_services(services)
        # Bumble would accept a write to a declaration, which a host with an old table may send.
        for attribute in server.attributes:
            if isinstance(attribute, CharacteristicDeclaration):
                attribute.write_value = refuse

    async def bridge(self, writeable, value):
        """Makes an SMP service for a device on UDP. Forwards each complete packet as a datagram."""
        from bumble.gatt import GATT_CLIENT_CHARACTERISTIC_CONFIGURATION_DESCRIPTOR, Characteristic, Descriptor, Service

        properties = Characteristic.Properties
        attribute = Characteristic(SMP_VALUE, properties.WRITE_WITHOUT_RESPONSE | properties.NOTIFY, writeable, value(write=self.smp))
        subscribable = Characteristic.WRITEABLE if self.options.open_subscription else writeable
        subscription = self.stack.gatt_server.make_descriptor_value(attribute)
        attribute.descriptors = (
            Descriptor(GATT_CLIENT_CHARACTERISTIC_CONFIGURATION_DESCRIPTOR, Characteristic.READABLE | subscribable, subscription),
        )
        self.characteristics["smp"], self.packet = attribute, b""
        if self.options.buffers:
            self.buffers = smp_buffers.SMPBuffers(
                self.options.buffers, self.options.buffer_size, not self.options.whole_packets, self.ask, self.notify_sent
            )
            self.serving = asyncio.ensure_future(self.buffers.serve())
        self.datagrams, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: Answers(self.answer), remote_addr=("127.0.0.1", self.options.smp)
        )
        unused = Characteristic("2A3D", properties.READ, Characteristic.READABLE, b"unused")
        return Service(SMP_SERVICE, [attribute] if self.options.layout is None else [attribute, unused])

    def smp(self, connection, value):
        self.authorized(connection)
        if self.buffers:
            return self.buffers.write(value)
        self.packet += value
        while len(self.packet) >= 8 and len(self.packet) >= (end := 8 + int.from_bytes(self.packet[2:4], "big")):
            operation, group, command = self.packet[0] & 7, self.packet[4:6], self.packet[7]
            if (group, command) != (b"\0\1", 1):  # not a chunk of an upload
                say("request", operation=operation, group=int.from_bytes(group, "big"), command=command)
            self.restarts = self.restarts or (operation, group, command) == (2, b"\0\0", 5)
            self.datagrams.sendto(self.packet[:end])
            self.packet = self.packet[end:]

    async def ask(self, packet):
        """Returns the answer of the device on UDP; None if it does not answer within 2 s."""
        self.answered = asyncio.get_running_loop().create_future()
        self.datagrams.sendto(packet)
        done, _ = await asyncio.wait([self.answered], timeout=2)
        return done.pop().result() if done else None

    async def notify_sent(self, packet):
        """Sends an answer, and returns when the controller has sent its last value. The value is lost if the connection has ended."""
        connection = self.connection
        length = connection.att_mtu - 3 if connection else 1
        for start in range(0, len(packet), length):
            if self.connection is not connection or not connection:
                return
            await self.stack.gatt_server.notify_subscriber(connection, self.characteristics["smp"], packet[start : start + length])
            with contextlib.suppress(ValueError):  # the connection has ended
                await self.stack.host.le_acl_packet_queue.drain(connection.handle)

    def answer(self, packet):
        if self.buffers:
            if self.answered and not self.answered.done():
                self.answered.set_result(packet)
            return
        length = self.connection.att_mtu - 3 if self.connection else len(packet)
        for start in range(0, len(packet) if self.connection else 0, length):
            self.notify(self.connection, "smp", packet[start : start + length])

    def connected(self, connection):
        self.connection, self.interval_asked = connection, False
        self.arrivals, self.image = Arrivals(), Arrivals()
        self.packet = b""
        self.device.connected()
        connection.on("disconnection", lambda reason: asyncio.get_running_loop().call_soon(self.disconnected, reason))
        connection.on("pairing", lambda keys: self.bonds.update({str(connection.peer_address): bool(keys.ltk and keys.ltk.authenticated)}))
        connection.on("pairing", lambda keys: say("paired", authenticated=bool(keys.ltk and keys.ltk.authenticated)))
        connection.on("connection_parameters_update", lambda: say("parameters", interval=connection.parameters.connection_interval))
        say("connected", interval=connection.parameters.connection_interval)

    def disconnected(self, reason):
        """Ends a connection. Called after the queued Data values that arrived before the disconnection."""
        say(
            "disconnected", reason=reason, mtu=self.connection.att_mtu, data=self.arrivals.told(), image=self.image.told(),
            state=self.device.state,
        )
        self.connection = None
        if self.buffers:
            say("buffers", free=self.buffers.free, dropped=self.buffers.dropped, refused=self.buffers.refused)
            self.buffers.disconnected()
        self.device.disconnected()

    # ---- Requests of a host

    def authorized(self, connection):
        """Requires a bond made with the passkey. Bumble reports every encrypted link as authenticated, even without a passkey."""
        from bumble.att import ATT_Error

        if self.options.passkey is not None and not (connection.encryption and self.bonds.get(str(connection.peer_address))):
            raise ATT_Error(INSUFFICIENT_AUTHENTICATION)

    def control(self, connection, value):
        from bumble.att import ATT_Error

        self.authorized(connection)
        subscribed = self.stack.gatt_server.subscribers.get(connection, {}).get(self.characteristics["control"].handle, b"\0\0")
        if not subscribed[0] & 1:
            raise ATT_Error(NOTIFICATIONS_OFF)
        self.device.write_control(value)
        if self.options.wrong_answers and value[:1] == bytes([self.states.BEGIN]):
            self.device.answers = type(self.device.answers)([bytes([0x80 | value[0], value[1], 0])])
        if value[:1] == bytes([self.states.IDENTIFY]):
            say("identify", seconds=self.device.blinking)
        if value[:1] == bytes([self.states.BEGIN]):
            self.ask_for_interval(connection)
        self.speak(connection)

    def data(self, connection, value):
        self.authorized(connection)
        self.arrivals.add(value)
        if self.device.state == self.states.IMAGE:
            self.image.add(value)
        self.device.write_data(value)
        self.speak(connection)
        if self.options.gone_after and self.device.state == self.states.IMAGE and self.device.offset >= self.options.gone_after:
            say("gone", offset=self.device.offset)
            os.kill(os.getpid(), signal.SIGKILL)

    def speak(self, connection):
        for violation in self.device.violations[self.seen_violations :]:
            say("violation", what=violation)
        self.seen_violations = len(self.device.violations)
        while self.device.answers:
            self.notify(connection, "control", self.device.answers.popleft())
        if self.device.progress:
            self.notify(connection, "progress", self.device.progress)
            self.device.progress = None

    def notify(self, connection, name, value):
        asyncio.ensure_future(self.stack.gatt_server.notify_subscriber(connection, self.characteristics[name], value))

    def ask_for_interval(self, connection):
        if self.options.interval and not self.interval_asked:
            self.interval_asked = True
            # Linux keeps a device's requested parameters for later connections. So the supervision timeout stays the default of Linux.
            asyncio.ensure_future(
                connection.update_parameters(self.options.interval, self.options.interval, 0, 420, use_l2cap=True)
            )

    # ---- Start and restart

    async def live(self):
        from bumble.hci import OwnAddressType

        await self.open()
        own = OwnAddressType.RANDOM if self.options.new_address else OwnAddressType.PUBLIC
        say("ready", address=self.address(), version=self.device.version().decode())
        while True:
            if self.device.reboot_due() or (self.restarts and not self.connection):
                await self.reboot()
            if not self.connection and not self.stack.is_advertising:
                await self.stack.start_advertising(own_address_type=own, advertising_interval_min=50, advertising_interval_max=50)
            await asyncio.sleep(0.05)

    async def reboot(self):
        if self.connection:
            await self.connection.disconnect()
        while self.connection:
            await asyncio.sleep(0.01)
        await self.stack.stop_advertising()
        self.restarts = False
        await asyncio.sleep(self.options.boot_seconds)
        if self.options.new_address:
            await self.change_address()
        if self.options.layout is not None:
            self.move_attributes()
        self.device.reboot()
        say("rebooted", version=self.device.version().decode(), state=self.device.state)

    def address(self):
        return str(self.stack.random_address if self.options.new_address else self.stack.public_address).split("/")[0]

    async def change_address(self):
        """Changes the random static address, as a Zephyr device without a stored identity does at each start."""
        from bumble.hci import Address, HCI_LE_Set_Random_Address_Command

        new = Address.generate_static_address()
        self.stack.static_address = self.stack.random_address = new
        await self.stack.send_sync_command(HCI_LE_Set_Random_Address_Command(random_address=new))
        say("address", address=self.address())


def passkey_display(base, passkey):
    class Display(base):
        def __init__(self):
            super().__init__(io_capability=base.DISPLAY_OUTPUT_ONLY)

        async def generate_passkey(self):
            return passkey

        async def display_number(self, number, digits):
            say("passkey", passkey=f"{number:0{digits}}")

    return Display()


def refusal(base):
    class Refusal(base):
        async def accept(self):
            return False

    return Refusal()


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adapter", default="hci1")
    parser.add_argument("--name", default="Bumble")
    parser.add_argument("--state", help="a folder for flash and bonds, which survive a kill")
    parser.add_argument("--trust", action="append", help="a public key, PEM (default: the key of the specification's example)")
    parser.add_argument("--product", default="demo")
    parser.add_argument("--version", default="1.0.0")
    parser.add_argument("--hardware", type=int, default=2)
    parser.add_argument("--counter", type=int, default=0)
    parser.add_argument("--battery", type=int, help="per cent; adds the Battery service")
    parser.add_argument("--mtu", type=int, default=517, help="the largest ATT MTU that the device accepts")
    parser.add_argument("--longest", type=int, default=495, help="longest Data value")
    parser.add_argument("--window", type=int, default=64, help="chunks in flight")
    parser.add_argument("--interval", type=float, help="connection interval in ms, requested at the first BEGIN of a connection")
    parser.add_argument("--restart", type=int, default=10, help="the restart time in Info, in seconds")
    parser.add_argument("--boot-seconds", type=float, default=1, help="the real duration of a restart, in seconds")
    parser.add_argument("--trial", type=int, default=120, help="duration of a trial in seconds; 0: no trial")
    parser.add_argument("--self-test-seconds", type=float, default=0, help="seconds after a start in which CONFIRM is answered busy")
    parser.add_argument("--passkey", type=int, help="require a link that was paired with this passkey")
    parser.add_argument("--no-pairing", action="store_true", help="refuse each pairing (default without --passkey: pair without a passkey)")
    parser.add_argument("--new-address", action="store_true", help="use a random address, and a new one after each restart")
    parser.add_argument("--open-subscription", action="store_true", help="with --smp and --passkey: require the bond only for a write")
    parser.add_argument(
        "--layout", type=int, choices=(0, 1),
        help="order of the characteristics; each restart changes it. Omits Service Changed and the database hash",
    )
    parser.add_argument("--no-service", action="store_true", help="omit the update service")
    parser.add_argument("--smp", type=int, metavar="PORT", help="serve SMP instead of the profile, for the device at this UDP port")
    parser.add_argument("--buffers", type=int, help="with --smp: the number of packet buffers, which Zephyr's rules limit (smp_buffers.py)")
    parser.add_argument("--buffer-size", type=int, default=384, help="with --buffers: the size of a buffer in bytes")
    parser.add_argument("--whole-packets", action="store_true", help="with --buffers: each value is one packet")
    parser.add_argument("--wrong-answers", action="store_true", help="answer BEGIN without a position")
    parser.add_argument("--gone-after", type=int, help="exit when this many bytes of an image have arrived")
    return parser.parse_args(words)


def main():
    options = arguments(sys.argv[1:])
    asyncio.run(Peripheral(options).live())


if __name__ == "__main__":
    main()
