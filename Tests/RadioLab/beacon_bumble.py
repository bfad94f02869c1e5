#!/usr/bin/env python3
"""A beacon on Bumble, for the example ble-beacon. It was written from the table in Examples/README.md and shares no code with the example.
In contrast to the example, it has the service in the scan response. It reports events as JSON on stdout, one object per line."""

import argparse
import asyncio
import struct

from air import air
from peripheral_bumble import open_adapter, say

SERVICE, IDENTIFIER, NUMBERS, TRANSMISSION = (f"2173e519-9155-4862-ab64-7953ab14615{number}" for number in (6, 7, 8, 9))
APPLE = 0x004C
INVALID_LENGTH, UNKNOWN_POWER, INTERVAL_OUT_OF_RANGE = 0x0D, 0x80, 0x81
LENGTHS = {IDENTIFIER: 16, NUMBERS: 4, TRANSMISSION: 4}


def ibeacon(identifier, major, minor, measured_power):
    """Returns the manufacturer data without the company identifier."""
    return bytes([2, 0x15]) + identifier + struct.pack(">HHb", major, minor, measured_power)


class Beacon:
    def __init__(self, options):
        self.options, self.written = options, False
        self.values = {IDENTIFIER: bytes(range(16)), NUMBERS: struct.pack("<HH", 300, 4), TRANSMISSION: struct.pack("<HH", 2, 160)}

    def read(self, attribute):
        if self.options.cut_read_back and self.written:
            air("cut")  # before the response
        return self.values[attribute]

    def write(self, attribute, value):
        from bumble.att import ATT_Error

        say("write", attribute=attribute, value=value.hex())
        if len(value) != LENGTHS[attribute]:
            raise ATT_Error(INVALID_LENGTH)
        if attribute == TRANSMISSION:
            power, interval = struct.unpack("<HH", value)
            if power > 2:
                raise ATT_Error(UNKNOWN_POWER)
            if not 160 <= interval <= 16384:
                raise ATT_Error(INTERVAL_OUT_OF_RANGE)
        if attribute == self.options.cut_at:
            air("cut")  # before the response
        if not self.options.forgetful:
            self.values[attribute] = bytes(value)
        self.written = True

    async def live(self):
        from bumble import device
        from bumble.core import UUID, AdvertisingData
        from bumble.gatt import Characteristic, CharacteristicValue, Service
        from bumble.hci import Address, OwnAddressType
        from bumble.host import Host

        def characteristic(attribute):
            return Characteristic(
                attribute, Characteristic.Properties.READ | Characteristic.Properties.WRITE,
                Characteristic.READABLE | Characteristic.WRITEABLE,
                CharacteristicValue(
                    read=lambda _: self.read(attribute), write=lambda connection, value: self.write(attribute, value)
                ),
            )

        transport = await open_adapter(self.options.adapter)
        stack = device.Device(
            config=device.DeviceConfiguration(name="Bumble", address=Address("F0:F1:F2:F3:F4:F5")),
            host=Host(controller_source=transport.source, controller_sink=transport.sink),
        )
        stack.add_services([Service(SERVICE, [characteristic(attribute) for attribute in LENGTHS])])
        stack.scan_response_data = bytes(
            AdvertisingData([(AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS, UUID(SERVICE).to_bytes())])
        )
        await stack.power_on()
        say("ready", address=str(stack.public_address).split("/")[0])
        while True:
            if not stack.connections and not stack.is_advertising:
                power = {2: -59, 1: -65, 0: -82}[struct.unpack("<HH", self.values[TRANSMISSION])[0]]
                data = ibeacon(self.values[IDENTIFIER], *struct.unpack("<HH", self.values[NUMBERS]), power)
                stack.advertising_data = bytes(AdvertisingData([
                    (AdvertisingData.FLAGS, bytes([0x06])),
                    (AdvertisingData.MANUFACTURER_SPECIFIC_DATA, struct.pack("<H", APPLE) + data),
                ]))
                await stack.start_advertising(
                    own_address_type=OwnAddressType.PUBLIC, advertising_interval_min=100, advertising_interval_max=100
                )
            await asyncio.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adapter", default="hci1")
    parser.add_argument("--cut-at", help="cut the link at a write to this characteristic")
    parser.add_argument("--cut-read-back", action="store_true", help="cut the link at the first read after a write")
    parser.add_argument("--forgetful", action="store_true", help="accept writes, but do not store the values")
    asyncio.run(Beacon(parser.parse_args()).live())


if __name__ == "__main__":
    main()
