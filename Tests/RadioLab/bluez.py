"""A small BlueZ client over D-Bus for the cases of the radio lab. It uses a library that otaflash does not use."""

import asyncio

from dbus_fast import BusType, DBusError, Message, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.service import ServiceInterface, dbus_method

ADAPTER, DEVICE, CHARACTERISTIC = "org.bluez.Adapter1", "org.bluez.Device1", "org.bluez.GattCharacteristic1"
PROPERTIES = "org.freedesktop.DBus.Properties"


class Bus:
    async def __aenter__(self):
        self.bus = await MessageBus(bus_type=BusType.SYSTEM, negotiate_unix_fd=True).connect()
        return self

    async def __aexit__(self, *_):
        self.bus.disconnect()

    async def call(self, path, interface, member, signature="", *body):
        reply = await self.bus.call(
            Message(destination="org.bluez", path=path, interface=interface, member=member, signature=signature, body=list(body))
        )
        if reply.error_name:
            raise DBusError(reply.error_name, f"{member}: {reply.body}")
        return reply

    async def objects(self):
        """Returns {path: {interface: {property: value}}}."""
        reply = await self.call("/", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
        return {
            path: {name: {key: value.value for key, value in properties.items()} for name, properties in interfaces.items()}
            for path, interfaces in reply.body[0].items()
        }

    async def wait(self, condition, seconds=15):
        """Returns the path and the properties of the first object that condition(path, interfaces) accepts."""
        for _ in range(int(seconds * 20)):
            for path, interfaces in (await self.objects()).items():
                if found := condition(path, interfaces):
                    return path, found
            await asyncio.sleep(0.05)
        raise TimeoutError("no matching object appeared in BlueZ's object tree")

    async def find(self, adapter, name, service):
        """Returns the path of a device that advertises this name."""
        path = f"/org/bluez/{adapter}"
        await self.call(
            path, ADAPTER, "SetDiscoveryFilter", "a{sv}", {"Transport": Variant("s", "le"), "UUIDs": Variant("as", [service])}
        )
        await self.call(path, ADAPTER, "StartDiscovery")

        def seen(place, interfaces):
            properties = interfaces.get(DEVICE, {})
            return place.startswith(path) and "RSSI" in properties and properties["Alias"] == name and properties

        try:
            return (await self.wait(seen))[0]
        finally:
            await self.call(path, ADAPTER, "StopDiscovery")

    async def connect(self, device):
        await self.call(device, DEVICE, "Connect")
        await self.wait(lambda path, interfaces: path == device and interfaces[DEVICE]["ServicesResolved"] and interfaces)

    async def characteristic(self, device, uuid):
        def wanted(path, interfaces):
            properties = interfaces.get(CHARACTERISTIC, {})
            return path.startswith(device) and properties.get("UUID") == uuid and properties

        return (await self.wait(wanted))[0]

    async def read(self, path):
        return bytes((await self.call(path, CHARACTERISTIC, "ReadValue", "a{sv}", {})).body[0])

    async def write(self, path, value):
        await self.call(path, CHARACTERISTIC, "WriteValue", "aya{sv}", value, {"type": Variant("s", "request")})

    async def set(self, path, interface, name, value):
        await self.call(path, PROPERTIES, "Set", "ssv", interface, name, value)

    async def leftovers(self, adapter="hci0"):
        """Lists the BlueZ resources on the central's adapter that an ended program should have released."""
        found, path = [], f"/org/bluez/{adapter}"
        for place, interfaces in (await self.objects()).items():
            if not place.startswith(path):
                continue
            if interfaces.get(ADAPTER, {}).get("Discovering"):
                found.append("a discovery session")
            if interfaces.get(DEVICE, {}).get("Connected"):
                found.append(f"a connection to {interfaces[DEVICE]['Address']}")
            characteristic = interfaces.get(CHARACTERISTIC, {})
            found += [f"{name} of {place}" for name in ("WriteAcquired", "NotifyAcquired", "Notifying") if characteristic.get(name)]
        return found

    async def advertisements(self, adapter="hci1"):
        return (await self.objects())[f"/org/bluez/{adapter}"]["org.bluez.LEAdvertisingManager1"]["ActiveInstances"]


class Agent(ServiceInterface):
    """A pairing agent with a keyboard that always enters this passkey."""

    path = "/agent"

    def __init__(self, passkey):
        super().__init__("org.bluez.Agent1")
        self.passkey = passkey

    @dbus_method()
    def Release(self):
        pass

    @dbus_method()
    def RequestPasskey(self, device: "o") -> "u":  # noqa: F821
        return self.passkey

    @dbus_method()
    def Cancel(self):
        pass

    async def register(self, bus):
        bus.bus.export(self.path, self)
        await bus.call("/org/bluez", "org.bluez.AgentManager1", "RegisterAgent", "os", self.path, "KeyboardOnly")
        await bus.call("/org/bluez", "org.bluez.AgentManager1", "RequestDefaultAgent", "o", self.path)


def ask(question):
    """Calls one asynchronous function of a bus and returns its result to synchronous code."""

    async def answer():
        async with Bus() as bus:
            return await question(bus)

    return asyncio.run(answer())
