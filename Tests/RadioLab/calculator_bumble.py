#!/usr/bin/env python3
"""A calculator on Bumble, for the example ble-calculator. It was written from the table in Examples/README.md and shares no code with the
example. It reports events as JSON on stdout, one object per line."""

import argparse
import asyncio

from peripheral_bumble import open_adapter, say

SERVICE, INPUT, OUTPUT = (f"13d0000{number}-cba1-45cc-992d-618377d1b182" for number in (1, 2, 3))
INVALID_LENGTH, UNKNOWN_OPERATION, OUT_OF_RANGE, TOO_MANY_CALCULATIONS = 0x0D, 0x80, 0x81, 0x82
OPERATIONS = {0: int.__add__, 1: int.__sub__, 2: int.__mul__}


class Calculator:
    def __init__(self, options):
        self.options, self.result = options, bytes(1)

    def write(self, connection, value):
        from bumble.att import ATT_Error

        say("write", value=value.hex())
        if len(value) != 3:
            raise ATT_Error(INVALID_LENGTH)
        if value[2] not in OPERATIONS or value[2] == self.options.without:
            raise ATT_Error(UNKNOWN_OPERATION)
        result = OPERATIONS[value[2]](value[0], value[1])
        if not 0 <= result <= 255:
            raise ATT_Error(OUT_OF_RANGE)
        self.result = bytes([result])
        if self.options.stray:
            asyncio.ensure_future(self.stack.gatt_server.notify_subscriber(connection, self.output, bytes([result ^ 1])))
        asyncio.get_running_loop().call_later(self.options.delay, self.notify, connection)

    def notify(self, connection):
        asyncio.ensure_future(self.stack.gatt_server.notify_subscriber(connection, self.output, self.result))

    async def live(self):
        from bumble import device
        from bumble.core import UUID, AdvertisingData
        from bumble.gatt import Characteristic, CharacteristicValue, Service
        from bumble.hci import Address, OwnAddressType
        from bumble.host import Host

        transport = await open_adapter(self.options.adapter)
        self.stack = device.Device(
            config=device.DeviceConfiguration(name="Bumble", address=Address("F0:F1:F2:F3:F4:F5")),
            host=Host(controller_source=transport.source, controller_sink=transport.sink),
        )
        properties = Characteristic.Properties
        self.output = Characteristic(
            OUTPUT, properties.READ | properties.NOTIFY, Characteristic.READABLE, CharacteristicValue(read=lambda _: self.result)
        )
        value = Characteristic(
            INPUT, properties.WRITE | properties.WRITE_WITHOUT_RESPONSE, Characteristic.WRITEABLE, CharacteristicValue(write=self.write)
        )
        self.stack.add_services([Service(SERVICE, [value, self.output])])
        self.stack.advertising_data = bytes(AdvertisingData([
            (AdvertisingData.FLAGS, bytes([0x06])),
            (AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS, UUID(SERVICE).to_bytes()),
        ]))
        self.stack.on("connection", lambda connection: say("connected"))
        await self.stack.power_on()
        await self.stack.start_advertising(
            own_address_type=OwnAddressType.PUBLIC, advertising_interval_min=50, advertising_interval_max=50, auto_restart=True
        )
        say("ready", address=str(self.stack.public_address).split("/")[0])
        await asyncio.Event().wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adapter", default="hci1")
    parser.add_argument("--delay", type=float, default=0, help="seconds between a write and the notification of its result")
    parser.add_argument("--stray", action="store_true", help="first notify the result of another central")
    parser.add_argument("--without", type=int, help="an operation that this calculator does not support")
    asyncio.run(Calculator(parser.parse_args()).live())


if __name__ == "__main__":
    main()
