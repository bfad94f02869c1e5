"""The processes of a chaos run: the devices, the store's server, and the gateways."""

import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import time
import urllib.request

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
DEBIAN = "/usr/sbin/nats-server"


def end_with_parent():
    """Runs in a new process: the kernel kills the process when the driver ends, however it ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A process that the driver can kill, pause and start again. It adds up the processor time of all its instances."""

    def __init__(self, name, words, folder, environment, **pipes):
        self.name, self.words, self.folder, self.environment, self.pipes = name, list(map(str, words)), folder, environment, pipes
        self.processor = 0.0
        self.memory = 0
        self.instances = 0
        self.exit = None
        self.process = None

    def start(self):
        with open(self.folder / f"{self.name}.log", "ab") as log:
            options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **self.pipes}
            self.process = subprocess.Popen(
                self.words, cwd=self.folder, env=self.environment, preexec_fn=end_with_parent, **options
            )
        self.instances += 1
        self.begun = time.monotonic()

    @property
    def runs(self):
        return self.process is not None

    def signal(self, number):
        if self.process:
            os.kill(self.process.pid, number)

    def wait(self):
        """Waits for the end of the process."""
        if not self.process:
            return
        _, status, usage = os.wait4(self.process.pid, 0)
        self.note(status, usage)

    def poll(self):
        """Returns true if the process has ended."""
        if not self.process:
            return True
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if pid:
            self.note(status, usage)
        return bool(pid)

    def note(self, status, usage):
        self.exit = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.processor += usage.ru_utime + usage.ru_stime
        self.memory = max(self.memory, usage.ru_maxrss)
        self.process = None

    def kill(self):
        self.signal(signal.SIGKILL)
        self.wait()


class Farm(Process):
    """The virtual devices."""

    def __init__(self, programs, folder, environment, devices, strangers, options):
        words = [programs / "device-farm", "serve", "--devices", devices, "--strangers", strangers, "--key", "release.pem", "--addresses", "addresses"]
        super().__init__("farm", words + options, folder, environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def start(self):
        super().start()
        if self.process.stdout.readline() != b"ready\n":
            raise RuntimeError(f"the devices did not start: {self.folder}/farm.log")
        return (self.folder / "addresses").read_text().split()

    def counters(self):
        """Returns the counters of each device."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Server(Process):
    """A NATS server with JetStream, on a port of the loopback interface that stays the same after a restart."""

    def __init__(self, program, folder, environment, name="server", routes=None):
        self.port, self.monitor = free_port(), free_port()
        # Debian's server does not have this setting: if it is killed, it can lose acknowledged writes.
        sync = "" if str(program) == DEBIAN else "sync_interval: always"
        text = f"""
            server_name: {name}
            listen: 127.0.0.1:{self.port}
            http: 127.0.0.1:{self.monitor}
            jetstream {{ store_dir: "{folder}/{name}", {sync} }}
        """
        if routes:
            text += f"cluster {{ name: chaos, listen: {routes[name]}, routes: {json.dumps(['nats://' + route for route in routes.values()])} }}\n"
        (folder / f"{name}.conf").write_text(text)
        super().__init__(name, [program, "-c", f"{name}.conf"], folder, environment)

    def start(self):
        super().start()
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"the server did not start: {self.folder}/{self.name}.log")

    def leader(self):
        """Returns the name of the server that leads the stream of the devices' records; None if there is none."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/jsz?streams=true", timeout=5) as answer:
            accounts = json.load(answer).get("account_details", [])
        streams = [stream for account in accounts for stream in account.get("stream_detail", [])]
        found = [stream["cluster"].get("leader") for stream in streams if stream["name"] == "KV_otaflash_devices" and "cluster" in stream]
        return found[0] if found else None


HOSTILE = """
import asyncio, itertools, json, nats, random, sys
url, seed, devices = sys.argv[1], int(sys.argv[2]), open(sys.argv[3]).read().split()
states = [{"state": "done"}, {"state": "given-up", "reason": "link-lost"}, {"state": "waiting", "retry_after": 2**31 - 1}, {"state": "running"}]
async def main():
    chance = random.Random(seed)
    client = await nats.connect(url.split(","), max_reconnect_attempts=-1)
    for number in itertools.count():
        device = chance.choice(devices)
        lie = {"schema": 1, "device": device, "product": "lamp", "version": "9.9.9", "rollout": "zzz", "rollout_created": "9999-12-31T23:59:59Z",
               "attempt": 1, "gateway": "evil", "instance": "00000000", "beat": 2**31 - 1, **chance.choice(states)}
        # Only a device without a record: a second update of a device would have a second result in the history.
        await client.publish(f"$KV.otaflash_devices.{device}", json.dumps(lie).encode(), headers={"Nats-Expected-Last-Subject-Sequence": "0"})
        await client.publish(f"$KV.otaflash_devices.junk.{number}.x", b"x" * chance.randrange(4000))
        await client.publish("$KV.otaflash_gateways.evil", b"{}", headers={"Nats-Rollup": "all"})
        await asyncio.sleep(0.1)
asyncio.run(main())
"""


def hostile(python, folder, environment, number, devices, urls, seed):
    """Creates a gateway that writes lies: records of the year 9999, foreign names, and a header that removes other records."""
    (folder / f"evil{number}.devices").write_text("\n".join(devices) + "\n")
    words = [python, "-c", HOSTILE, urls, seed + number, f"evil{number}.devices"]
    return Process(f"evil{number}", words, folder, environment)


def cluster(program, folder, environment):
    """Returns three servers of one cluster."""
    routes = {f"server{number}": f"127.0.0.1:{free_port()}" for number in range(3)}
    return [Server(program, folder, environment, name, routes) for name in routes]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def raise_file_limit():
    """Raises the limit of open files as far as allowed, because each device has a socket."""
    _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))


def member(programs, folder, environment, name, words, store):
    """Creates a gateway or a controller with folders of its own, as on a computer of its own. Each has the controller's key."""
    home = folder / name
    for part in ("state/fleet", "run"):
        (home / part).mkdir(parents=True, mode=0o700)
    key = home / "state/fleet/controller.pem"
    key.write_bytes((folder / "controller.pem").read_bytes())
    key.chmod(0o600)
    own = {"HOME": str(home), "OTAFLASH_STATE_DIR": str(home / "state"), "XDG_RUNTIME_DIR": str(home / "run")}
    words = [programs / "otaflash-fleet", *words, "--operators", "ops.pub.pem", *store]
    return Process(name, words, folder, {**environment, **own})


def gateway(programs, folder, environment, number, addresses, store, at_once):
    name = f"gw{number}"
    devices = folder / f"{name}.devices"
    devices.write_text("\n".join(addresses) + "\n")
    words = ["gateway", "run", "--name", name, "--device-file", devices, "--trust", "release.pub.pem", "--at-once", at_once]
    return member(programs, folder, environment, name, words, store)


def controller(programs, folder, environment, number, store):
    """On a server, the gateways are not controllers."""
    return member(programs, folder, environment, f"controller{number}", ["fleet", "run"], store)
