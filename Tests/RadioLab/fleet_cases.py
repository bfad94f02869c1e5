"""A fleet on the air: gateways that find their devices with scans, and a gateway that is killed."""

import json
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing

from cases import case
from lab import Process, until

SIZE, VERSION = 128 << 10, "2.0.0"


class Fleet:
    """The store of a fleet, with a rollout of one release to all devices. `devices` are enrolled."""

    def __init__(self, lab, devices, *options):
        self.lab, self.store = lab, lab.folder / "fleet.db"
        lab.make("keygen", lab.folder / "ops")
        self.operators = lab.folder / "ops.pub.pem"
        key = ("--key", lab.folder / "ops.pem", "--store", self.store)
        enrolled = lab.folder / "enrolled"
        enrolled.write_text("".join(f"ble:{device.address}\n" for device in devices))
        published = self.json("release", "publish", lab.bundle(SIZE, VERSION), *key, "--trust", lab.public)
        self.json("rollout", "create", "spring", "--release", published["release"]["id"], "--select", "product=demo",
                  "--enrolled", enrolled, *options, *key)

    def json(self, *words, exit_code=0, seconds=30):
        process = Process([self.lab.binary, *words, "--format", "json"], words[0], env=self.lab.environment)
        code, text = process.wait(seconds), process.out.text()
        assert code == exit_code, f"exit code {code}, expected {exit_code}"
        return json.loads(text)

    def gateway(self, name, adapter):
        """Starts a gateway. It stops when the case ends."""
        words = [self.lab.binary, "gateway", "run", "--name", name, "--all", "--adapter", adapter, "--store", self.store]
        process = Process([*words, "--trust", self.lab.public, "--operators", self.operators], name, env=self.lab.environment)

        def stop():
            if process.process.poll() is None:
                process.signal(signal.SIGTERM)
                process.wait(30)

        self.lab.stack.callback(stop)
        return process

    def wait(self, seconds):
        words = ("--operators", self.operators, "--store", self.store, "--wait", "--timeout", f"{seconds}s")
        return self.json("rollout", "status", "spring", *words, seconds=seconds + 10)

    def query(self, text):
        with closing(sqlite3.connect(self.store)) as database:
            return database.execute(text).fetchall()

    def devices(self):
        """The records of all devices."""
        return [json.loads(it) for it, in self.query("SELECT bytes FROM record WHERE bucket = 'devices'")]

    def assert_updated_once(self, devices):
        """Requires that each device runs the release, and that each has exactly one event 'updated'."""
        for device in devices:
            device.assert_confirmed(VERSION)
        assert [it["state"] for it in self.devices()] == ["done"] * len(devices), self.devices()
        events = self.query("SELECT device, kind FROM event")
        assert sorted(Counter(device for device, kind in events if kind == "updated").values()) == [1] * len(devices), events


@case(limit=300)
def gateway_finds_devices(lab):
    """A gateway finds four devices with a scan, reads each one once, and updates all of them."""
    lab.need_otaflash()
    devices = lab.bumbles(4)
    fleet = Fleet(lab, devices)
    gateway = fleet.gateway("desk", "hci0")
    fleet.wait(120)
    fleet.assert_updated_once(devices)
    gateway.signal(signal.SIGTERM)
    assert gateway.wait(30) == 0
    lab.assert_nothing_left()


@case(limit=300)
def gateway_is_killed(lab):
    """Two gateways hear four devices. One gateway is killed in mid-transfer: the other one updates the rest, and each device is
    confirmed once."""
    lab.need_otaflash()
    lab.air("set", "interval", 50)
    devices = lab.bumbles(4, first=2)
    fleet = Fleet(lab, devices)
    gateways = {"desk": fleet.gateway("desk", "hci0"), "shelf": fleet.gateway("shelf", "hci1")}

    record = until(lambda: next((it for it in fleet.devices() if it.get("phase") == "transfer"), None), 60, "a transfer")
    time.sleep(2)
    gateways[record["gateway"]].signal(signal.SIGKILL)
    fleet.wait(200)
    fleet.assert_updated_once(devices)


@case(limit=400)
def strangers_count_for_nothing(lab):
    """Four strangers answer wrongly, and three play perfect updates. None is in the first stage, none halts the rollout, and the two
    enrolled devices are each confirmed once."""
    lab.need_otaflash()
    devices = lab.bumbles(2)
    lab.bumbles(4, "--wrong-answers", first=3)
    lab.bumbles(3, first=7)
    fleet = Fleet(lab, devices, "--stages", "50%,100%", "--advance", "100%,min=1", "--halt", "0%,min=1")
    fleet.gateway("desk", "hci0")
    own = [f"ble-{device.address.replace(':', '')}" for device in devices]
    fleet.wait(200)

    def strangers(state):
        return sum(it["state"] == state and it["device"] not in own for it in fleet.devices())

    until(lambda: strangers("given-up") == 4 and strangers("done") == 3, 200, "the results of the strangers")
    rollout = fleet.wait(60)["rollout"]
    assert rollout["state"] == "running" and rollout["devices"] == {"done": 2, "running": 0, "failed": 0, "refused": 0, "waiting": 0}, rollout
    for device in devices:
        device.assert_confirmed(VERSION)
    events = [device for device, kind in fleet.query("SELECT device, kind FROM event ORDER BY rowid") if kind == "updated"]
    assert events[0] in own and all(events.count(name) == 1 for name in own), events
