"""A chat peer on Bumble, for the example ble-chat. It was written from the tables in Examples/README.md and shares no code with the example.
Each case calls its steps one by one, so a case can also make it a faulty peer or a peer of another session."""

import asyncio
import hashlib
import hmac
import struct

from peripheral_bumble import open_adapter

DISCOVERY = "5d0c0001-7a3e-4f0e-9b55-2f6c1d8e4b17"
SERVICE, VALUE = "9f37e282-60b6-42b1-a02f-7341da5e2eba", "890aa912-c414-440d-88a2-c7f66179589b"
COMPANY, CALL = 0xFFFF, 0x8000
HELLO, PROOF, POSITION, TEXT, END, GOODBYE = range(1, 7)
MALFORMED, OTHER_SESSION, NOT_EXPECTED, WRONG_POSITION = range(0x80, 0x84)
NONCE = bytes(range(100, 108))


def code(session, message):
    key = hashlib.sha256(f"ble-chat session {session}".encode()).digest()
    return hmac.new(key, message, hashlib.sha256).digest()


def tag(session):
    return struct.unpack("<H", code(session, b"\xff")[:2])[0] & 0x7FFF


def position(sequence, offset=0):
    return struct.pack("<BIH", POSITION, sequence, offset)


def text(sequence, offset, data, last):
    return struct.pack("<BIH", END if last else TEXT, sequence, offset) + data


class Peer:
    def __init__(self, name="Bumble", identity=0x10203040, session="public"):
        self.name, self.identity, self.session = name, struct.pack("<I", identity), session
        self.frames, self.ended, self.connection, self.as_central = asyncio.Queue(), asyncio.Event(), None, False
        self.link = NONCE[:4]

    async def open(self, adapter):
        from bumble import device
        from bumble.gatt import Characteristic, CharacteristicValue, Service
        from bumble.hci import Address
        from bumble.host import Host

        self.transport = await open_adapter(adapter)
        self.stack = device.Device(
            config=device.DeviceConfiguration(name=self.name, address=Address("F0:F1:F2:F3:F4:F5")),
            host=Host(controller_source=self.transport.source, controller_sink=self.transport.sink),
        )
        self.value = Characteristic(
            VALUE, Characteristic.Properties.WRITE | Characteristic.Properties.NOTIFY, Characteristic.WRITEABLE,
            CharacteristicValue(write=lambda connection, value: self.frames.put_nowait(bytes(value))),
        )
        self.stack.add_services([Service(SERVICE, [self.value])])
        self.stack.on("connection", self.connected)
        await self.stack.power_on()
        self.address = str(self.stack.public_address).split("/")[0]
        return self

    def connected(self, connection):
        self.connection = connection
        self.ended.clear()
        while not self.frames.empty():
            self.frames.get_nowait()
        connection.on("disconnection", lambda reason: self.ended.set())

    def pairs(self, shows_numbers):
        """Accepts pairings: with numeric comparison, or without a display and without a keyboard."""
        from bumble.pairing import PairingConfig, PairingDelegate

        numbers = self.numbers = asyncio.Queue()

        class Delegate(PairingDelegate):
            async def compare_numbers(self, number, digits):
                numbers.put_nowait(f"{number:0{digits}}")
                return True

        capability = PairingDelegate.DISPLAY_OUTPUT_AND_YES_NO_INPUT if shows_numbers else PairingDelegate.NO_OUTPUT_NO_INPUT
        self.stack.pairing_config_factory = lambda connection: PairingConfig(
            sc=True, mitm=shows_numbers, bonding=True, delegate=Delegate(capability)
        )

    async def close(self):
        await self.transport.close()

    async def advertise(self, called=None, session=None):
        """Advertises the presence of this peer, or its call to the peer with this identity."""
        from bumble.core import UUID, AdvertisingData
        from bumble.hci import OwnAddressType

        head = tag(session or self.session) | (CALL if called else 0)
        if self.stack.is_advertising:
            await self.stack.stop_advertising()
        self.stack.advertising_data = bytes(AdvertisingData([
            (AdvertisingData.FLAGS, bytes([0x06])),
            (AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS, UUID(SERVICE if called else DISCOVERY).to_bytes()),
            (AdvertisingData.MANUFACTURER_SPECIFIC_DATA, struct.pack("<HH", COMPANY, head) + (called or self.identity)),
        ]))
        self.stack.scan_response_data = bytes(AdvertisingData([(AdvertisingData.COMPLETE_LOCAL_NAME, self.name.encode())]))
        await self.stack.start_advertising(
            own_address_type=OwnAddressType.PUBLIC, advertising_interval_min=50, advertising_interval_max=50
        )

    async def find(self, service, name=None):
        """Waits for an advertisement with this service, and a scan response with this name. Returns the address, and the identity in the advertised data."""
        from bumble.core import UUID, AdvertisingData
        from bumble.hci import OwnAddressType

        found = asyncio.get_running_loop().create_future()

        def heard(seen):
            services = seen.data.get(AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS) or []
            data = seen.data.get(AdvertisingData.MANUFACTURER_SPECIFIC_DATA)
            other = name and seen.data.get(AdvertisingData.COMPLETE_LOCAL_NAME) != name
            if UUID(service) in services and data and not other and not found.done():
                company, payload = data
                head, identity = struct.unpack("<H4s", payload)
                assert company == COMPANY and head == tag("public") | (CALL if service == SERVICE else 0), (company, payload)
                found.set_result((seen.address, identity))

        self.stack.on("advertisement", heard)
        await self.stack.start_scanning(own_address_type=OwnAddressType.PUBLIC, filter_duplicates=False)
        result = await asyncio.wait_for(found, 15)
        await self.stack.stop_scanning()
        self.stack.remove_listener("advertisement", heard)
        return result

    async def connect(self, address):
        from bumble.core import UUID
        from bumble.device import Peer as Remote
        from bumble.gatt import Characteristic
        from bumble.hci import OwnAddressType

        self.as_central = True
        if self.stack.is_advertising:
            await self.stack.stop_advertising()
        connection = await self.stack.connect(address, own_address_type=OwnAddressType.PUBLIC, timeout=15)
        remote = Remote(connection)
        await remote.request_mtu(100)
        await remote.discover_service(UUID(SERVICE))
        await remote.discover_characteristics()
        (self.remote,) = remote.get_characteristics_by_uuid(UUID(VALUE))
        assert self.remote.properties == Characteristic.Properties.WRITE | Characteristic.Properties.NOTIFY
        await self.remote.subscribe(lambda value: self.frames.put_nowait(bytes(value)))

    async def disconnect(self):
        await self.connection.disconnect()
        await self.end()

    async def end(self):
        await asyncio.wait_for(self.ended.wait(), 10)

    async def send(self, *frames):
        for frame in frames:
            frame = self.link + frame
            if self.as_central:
                await self.remote.write_value(frame, with_response=True)
            else:
                await self.stack.gatt_server.notify_subscriber(self.connection, self.value, frame)

    async def is_refused(self, frame):
        """Sends a frame that the peripheral must refuse, and returns the ATT error."""
        from bumble.att import ATT_Error

        try:
            await self.send(frame)
        except ATT_Error as error:
            return error.error_code
        raise AssertionError(f"the peer accepted {frame.hex()}")

    async def receive(self):
        """Returns the next frame, without the number of the link. As the peripheral, this peer reads the number from the central's hello."""
        value = await asyncio.wait_for(self.frames.get(), 10)
        if value[4] == HELLO:
            self.link = NONCE[:4] if self.as_central else value[-8:-4]
        assert value[:4] == self.link, value.hex()
        return value[4:]

    def proof(self, of_central, theirs):
        ours = self.identity + NONCE
        parts = ours + theirs if self.as_central else theirs + ours
        return bytes([PROOF]) + code(self.session, bytes([of_central]) + parts)[:12]

    def hello(self):
        if self.as_central:
            self.link = NONCE[:4]
        return bytes([HELLO, 1]) + self.identity + NONCE

    async def greet(self, at=position(1)):
        """Performs the handshake, sends the position, and returns the other peer's position."""
        if self.as_central:
            await self.send(self.hello())
        hello = await self.receive()
        assert len(hello) == 14 and hello[:2] == bytes([HELLO, 1]), hello.hex()
        if not self.as_central:
            await self.send(self.hello(), self.proof(False, hello[2:]))
        assert await self.receive() == self.proof(not self.as_central, hello[2:])
        if self.as_central:
            await self.send(self.proof(True, hello[2:]))
        await self.send(at)
        return await self.receive()

    async def receive_text(self, sequence, offset=0):
        """Receives the rest of a message, acknowledges it, and returns its bytes."""
        whole = b""
        while True:
            frame = await self.receive()
            kind, number, start = struct.unpack("<BIH", frame[:7])
            assert kind in (TEXT, END) and (number, start) == (sequence, offset + len(whole)), frame.hex()
            whole += frame[7:]
            if kind == END:
                await self.send(position(sequence + 1))
                return whole
