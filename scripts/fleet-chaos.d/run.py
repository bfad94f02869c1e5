"""Plays a rollout to thousands of virtual devices while gateways are killed and paused. scripts/fleet-chaos describes it."""

import argparse
import hashlib
import heapq
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import Checks, local_events, local_salt, nats_events, nats_salt
from fleet import Farm, Server, cluster, controller, gateway, hostile, raise_file_limit

NEW = "1.1.0"
# The size of the image in bytes, the time of a device for an answer in ms, and the time after which a run fails in s.
SIZE, ANSWER_DELAY, LIMIT = 10_000, 50, 600


def options():
    parser = argparse.ArgumentParser(prog="fleet-chaos", description=__doc__)
    parser.add_argument("--devices", type=int, default=10_000, help="default: 10000")
    parser.add_argument("--gateways", type=int, default=50, help="default: 50")
    parser.add_argument("--at-once", type=int, default=4, help="the updates at the same time of each gateway; default: 4")
    parser.add_argument("--strangers", type=int, help="the number of further devices, which are not enrolled and answer wrongly; default: 5 %% of the devices")
    parser.add_argument("--seed", type=int, default=1, help="chooses the faults; default: 1")
    parser.add_argument("--short", action="store_true", help="1000 devices, 10 gateways with 8 updates at the same time, two stages, and fewer faults")
    parser.add_argument("--store", action="store_true", help="all gateways use one file, not a NATS server")
    parser.add_argument("--cluster", action="store_true", help="three NATS servers; a fault kills the server that leads the devices' records")
    parser.add_argument("--bad", action="store_true", help="the new image crashes, so that the rollout must halt")
    parser.add_argument("--server", default=Path(sys.executable).with_name("nats-server"), help="the program of the NATS server; default: 2.15.1")
    parser.add_argument("programs", type=Path, help="the folder of otaflash, otaflash-fleet and device-farm")
    chosen = parser.parse_args()
    if chosen.store and chosen.cluster:
        parser.error("--store and --cluster cannot be used together")
    # The mean times between two killed and two paused gateways in s.
    chosen.kill_every, chosen.pause_every = 0.5, 3
    if chosen.short:
        chosen.devices, chosen.gateways, chosen.at_once = 1000, 10, 8
        chosen.kill_every, chosen.pause_every = 1.5, 6
    if chosen.strangers is None:
        chosen.strangers = chosen.devices // 20
    return chosen


def device_id(address):
    return "".join(letter if letter.isalnum() else "-" for letter in address)


class Run:
    def __init__(self, chosen, folder):
        self.chosen, self.folder = chosen, folder
        self.programs = chosen.programs.resolve()
        self.random = random.Random(chosen.seed)
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "OTAFLASH_MUTANT") if name in os.environ}
        self.environment = {**kept, "HOME": str(folder), "OTAFLASH_STATE_DIR": str(folder / "state"), "SWIFT_BACKTRACE": "enable=no"}
        self.store = ["--store", folder / "fleet.db"]
        self.processes, self.gateways, self.controllers, self.hostile = [], [], [], []
        self.servers = []
        self.checks = Checks()
        self.figures = {}
        self.faults = {"kills": 0, "pauses": 0, "server_kills": 0, "controller_kills": 0}

    def otaflash(self, *words):
        """Runs a command of an operator. Returns its JSON."""
        program = "otaflash" if words[0] in ("keygen", "sign") else "otaflash-fleet"
        command = [str(self.programs / program), *map(str, words)]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def prepare(self):
        """Creates keys, a bundle, the devices, the store and the rollout."""
        chosen = self.chosen
        for name in ("release", "ops", "controller"):
            self.otaflash("keygen", name)
        farm = self.programs / "device-farm"
        image = self.folder / "app.bin"
        subprocess.run(
            [farm, "image", image, "--version", NEW, "--size", str(SIZE), "--key", "release.pem"], cwd=self.folder, check=True
        )
        self.size = image.stat().st_size
        self.otaflash("sign", "app.bin", "--key", "release.pem", "--product", "lamp", "--version", NEW, "-o", "app.otaf")
        options = ["--answer-delay", ANSWER_DELAY] + (["--crashing", NEW] if chosen.bad else [])
        self.farm = Farm(self.programs, self.folder, self.environment, chosen.devices, chosen.strangers, options)
        self.processes.append(self.farm)
        addresses = self.farm.start()
        if not chosen.store:
            member = (chosen.server, self.folder, self.environment)
            self.servers = cluster(*member) if chosen.cluster else [Server(*member)]
            self.processes += self.servers
            for server in self.servers:
                server.start()
            self.urls = ",".join(f"nats://127.0.0.1:{server.port}" for server in self.servers)
            self.store = ["--server", self.urls]
            self.otaflash("fleet", "init", "--replicas", len(self.servers), *self.store)
        published = self.otaflash(
            "release", "publish", "app.otaf", "--key", "ops.pem", "--trust", "release.pub.pem", "--format", "json", *self.store
        )
        release = json.loads(published.stdout)["release"]["id"]
        first = 1 if chosen.devices >= 5000 else 5 if chosen.devices >= 500 else 20
        genuine = addresses[: chosen.devices]
        self.strangers = {device_id(address) for address in addresses[chosen.devices :]}
        (self.folder / "enrolled").write_text("".join(f"{address}\n" for address in genuine))
        self.otaflash(
            "rollout", "create", "chaos", "--release", release, "--select", f"product=lamp,running=<{NEW}", "--stages", f"{first}%,100%" if chosen.short else f"{first}%,40%,100%",
            "--advance", "90%,min=5", "--halt", "5%,min=5", "--attempts", "50", "--key", "ops.pem", "--controller", "controller.pub.pem",
            "--enrolled", "enrolled", *self.store,
        )
        # The hash of docs/decisions/0032-enrolled-devices.md selects the devices of the first stage.
        salt = local_salt(self.folder / "fleet.db") if chosen.store else nats_salt(sys.executable, self.urls)
        self.canary = sum(
            int.from_bytes(hashlib.sha256(b"otaflash-stage-v2" + salt + device_id(address).encode()).digest()[:4], "big") % 10_000 < first * 100
            for address in genuine
        )
        heard = [[] for _ in range(chosen.gateways)]
        for number, address in enumerate(addresses):
            for index in sorted(self.random.sample(range(chosen.gateways), min(chosen.gateways, 2 + number % 2))):
                heard[index].append(address)
        for number, own in enumerate(heard):
            process = gateway(self.programs, self.folder, self.environment, number, own, self.store, chosen.at_once)
            self.gateways.append(process)
        if self.servers:
            self.controllers = [controller(self.programs, self.folder, self.environment, number, self.store) for number in range(2)]
        if self.servers and not chosen.bad:
            # A lie delays its device by 45 s in the run of a gateway, and the faults end when 95 % of the devices are confirmed.
            names = [device_id(address) for address in self.random.sample(addresses, chosen.devices // 25)]
            for number in range(max(1, chosen.gateways // 20)):
                self.hostile.append(hostile(sys.executable, self.folder, self.environment, number, names, self.urls, chosen.seed))
        self.processes += self.gateways + self.controllers + self.hostile

    def play(self):
        """Starts the gateways, and plays the faults until almost all devices are confirmed. Then waits for the end of the rollout."""
        chosen = self.chosen
        begun = time.monotonic()
        for process in self.gateways + self.controllers + self.hostile:
            process.start()
        words = [self.programs / "otaflash-fleet", "rollout", "status", "chaos", "--operators", "ops.pub.pem", "--wait"]
        words += ["--timeout", f"{LIMIT}s", "--format", "json", *self.store]
        with open(self.folder / "status.log", "wb") as log:
            status = subprocess.Popen(
                list(map(str, words)), cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            later = []
            kill, pause, look = (begun + 2 + self.random.expovariate(1 / every) for every in (chosen.kill_every, chosen.pause_every, 2))
            # A killed controller delays a stage by 45 s. In a short run, the faults begin with the last stage.
            confirmed, calm = 0, chosen.short
            # The shares of confirmed devices at which the server is killed.
            servers = [] if chosen.store else [0.5] if chosen.short else [0.225, 0.45, 0.675]
            while status.poll() is None:
                now = time.monotonic()
                while later and later[0][0] <= now:
                    heapq.heappop(later)[2]()
                if now >= look:
                    look = now + 2
                    counters = self.farm.counters()[: chosen.devices]
                    confirmed = sum(device["confirmations"] > 0 for device in counters)
                    self.figures.setdefault("first_confirmed_s", None)
                    if confirmed and self.figures["first_confirmed_s"] is None:
                        self.figures["first_confirmed_s"] = round(now - begun, 1)
                    is_early = chosen.short and confirmed <= self.canary and not chosen.bad
                    calm = is_early or confirmed >= 0.95 * chosen.devices
                    if calm and not is_early and "faults_s" not in self.figures:
                        self.figures["faults_s"] = round(now - begun, 1)
                    if confirmed == chosen.devices:
                        self.figures.setdefault("confirmed_s", round(now - begun, 1))
                    if servers and confirmed >= servers[0] * chosen.devices:
                        servers.pop(0)
                        self.kill_server(later, now)
                if not calm and now >= kill:
                    kill = now + self.random.expovariate(1 / chosen.kill_every)
                    self.kill(later, now)
                if not calm and now >= pause:
                    pause = now + self.random.expovariate(1 / chosen.pause_every)
                    self.pause(later, now)
                for process in self.gateways + self.controllers:
                    if process.runs and process.poll():
                        self.checks.demand(False, f"{process.name} ended by itself with {process.exit}: {self.folder}/{process.name}.log")
                        process.start()
                time.sleep(0.02)
            for _, _, action in later:
                action()
        finally:
            status.kill()
            for process in self.hostile:
                self.checks.demand(not process.poll(), f"{process.name} ended by itself: {self.folder}/{process.name}.log")
                process.kill()
        self.figures["seconds"] = round(time.monotonic() - begun, 1)
        return status.wait()

    def kill(self, later, now):
        running = [process for process in self.gateways if process.runs]
        if len(running) <= 1:
            return
        process = self.random.choice(running)
        process.kill()
        self.faults["kills"] += 1
        heapq.heappush(later, (now + self.random.uniform(1, 8), id(process), lambda: process.runs or process.start()))

    def kill_server(self, later, now):
        """Kills the server, in a cluster the leader of the devices' records, and at the same time a controller."""
        running = [server for server in self.servers if server.runs]
        leader = running[0].leader() if len(running) > 1 else None
        for server in running:
            if server.name == (leader or running[0].name):
                server.kill()
                self.faults["server_kills"] += 1
                heapq.heappush(later, (now + (8 if leader else 2), id(server), server.start))
        process = self.random.choice(self.controllers)
        process.kill()
        self.faults["controller_kills"] += 1
        heapq.heappush(later, (now + 8, id(process), process.start))

    def pause(self, later, now):
        process = self.random.choice([process for process in self.gateways if process.runs] or [None])
        if process:
            process.signal(signal.SIGSTOP)
            self.faults["pauses"] += 1
            heapq.heappush(later, (now + self.random.uniform(2, 9), id(process), lambda: process.signal(signal.SIGCONT)))

    def stop(self):
        """Stops the gateways as a user does."""
        for process in self.gateways + self.controllers:
            process.signal(signal.SIGCONT)
            process.signal(signal.SIGTERM)
        begun = time.monotonic()
        for process in self.gateways + self.controllers:
            process.wait()
            # A gateway that has just started does not catch the signal yet.
            is_new = process.exit == -signal.SIGTERM and begun - process.begun < 3
            self.checks.demand(process.exit == 0 or is_new, f"{process.name} ended with {process.exit} after SIGTERM: {self.folder}/{process.name}.log")
        self.figures["stop_s"] = round(time.monotonic() - begun, 1)

    def summary(self):
        """Returns the rollout in the last line of rollout status."""
        lines = (self.folder / "status.log").read_text().splitlines()
        return json.loads(next(line for line in reversed(lines) if line.startswith("{")))["rollout"]

    def judge(self, exit_status):
        counters = self.farm.counters()
        genuine, strangers = counters[: self.chosen.devices], counters[self.chosen.devices :]
        if self.chosen.bad:
            self.figures |= self.checks.halt(genuine, exit_status, self.chosen.gateways * self.chosen.at_once, self.canary)
            uploads = sum(device["uploads"] for device in strangers)
            self.checks.demand(uploads == 0, f"{uploads} uploads to strangers started before the last stage")
        else:
            self.checks.demand(exit_status == 0, f"rollout status --wait ended with {exit_status}: {self.folder}/status.log")
            self.figures |= self.checks.devices(genuine, NEW, self.size)
            records = json.loads(self.otaflash("fleet", "devices", "--format", "json", *self.store).stdout)["devices"]
            self.figures |= self.checks.records([record for record in records if record["id"] not in self.strangers], self.chosen.devices, NEW)
            self.figures |= self.checks.strangers([record for record in records if record["id"] in self.strangers], strangers, self.summary())
        events = local_events(self.folder / "fleet.db") if self.chosen.store else nats_events(sys.executable, self.urls)
        self.figures |= self.checks.events(events, self.chosen.devices)

    def measure(self):
        for process in self.processes:
            process.kill()
        busy = sum(process.processor for process in self.gateways)
        self.figures |= {
            "gateway_instances": sum(process.instances for process in self.gateways),
            "gateway_cpu_s": round(busy, 1),
            "gateway_mib": round(max(process.memory for process in self.gateways) / 1024, 1),
            "farm_cpu_s": round(self.farm.processor, 1),
        }
        if self.servers:
            self.figures |= {
                "server_cpu_s": round(sum(server.processor for server in self.servers), 1),
                "server_mib": round(max(server.memory for server in self.servers) / 1024, 1),
            }

    def end(self):
        for process in reversed(self.processes):
            process.kill()


def main():
    chosen = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    raise_file_limit()
    folder = Path(tempfile.mkdtemp(prefix="otaflash-chaos-"))
    run = Run(chosen, folder)
    try:
        run.prepare()
        status = run.play()
        run.stop()
        run.judge(status)
        run.measure()
    finally:
        run.end()
        if not run.checks.violations and not sys.exc_info()[0]:
            shutil.rmtree(folder)
    plan = {name: getattr(chosen, name) for name in ("devices", "strangers", "gateways", "at_once", "seed", "store", "cluster", "bad")}
    figures = {**plan, **run.faults, **run.figures}
    for name, value in figures.items():
        print(f"| {name.replace('_', ' ')} | {value} |")
    for violation in run.checks.violations:
        print(f"fleet-chaos: {violation}", file=sys.stderr)
    if run.checks.violations:
        print(f"fleet-chaos: the folder of the run is {folder}", file=sys.stderr)
    sys.exit(1 if run.checks.violations else 0)


main()
