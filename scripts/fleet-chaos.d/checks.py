"""The invariants of a chaos run: what the devices have counted, and what the store contains."""

import base64
import json
import sqlite3
import subprocess
from collections import Counter


class Checks:
    """Collects the violations of the invariants."""

    def __init__(self):
        self.violations = []

    def demand(self, holds, text):
        if not holds:
            self.violations.append(text)

    def devices(self, counters, version, size):
        """Checks the counters of the devices after a good rollout."""
        confirmations = Counter(device["confirmations"] for device in counters)
        self.demand(
            confirmations == {1: len(counters)}, f"devices by number of confirmations: {dict(sorted(confirmations.items()))}, expected 1 for all"
        )
        other = [device["port"] for device in counters if device["version"] != version or device["trial"]]
        self.demand(not other, f"{len(other)} devices do not run {version} confirmed: ports {other[:5]}")
        accepted = sum(device["accepted_bytes"] for device in counters)
        refused = sum(device["refused_bytes"] for device in counters)
        needed = size * len(counters)
        ratio = (accepted + refused) / needed
        self.demand(ratio <= 1.01, f"the gateways sent {ratio:.4f} times the needed bytes, expected at most 1.01")
        return {
            "confirmed_once": confirmations[1],
            "accepted_ratio": round(accepted / needed, 4),
            "sent_ratio": round(ratio, 4),
            "uploads": sum(device["uploads"] for device in counters),
            "restarts": sum(device["restarts"] for device in counters),
        }

    def records(self, records, count, version):
        """Checks the devices' records after a good rollout."""
        states = Counter(record["state"] for record in records)
        self.demand(states == {"done": count}, f"records by state: {dict(states)}, expected {count} done")
        wrong = [record["id"] for record in records if record["version"] != version]
        self.demand(not wrong, f"{len(wrong)} records do not have the version {version}: {wrong[:5]}")
        attempts = Counter(record["attempt"] for record in records)
        return {"records_done": states["done"], "repeated": sum(attempts.values()) - attempts[1], "most_attempts": max(attempts, default=0)}

    def strangers(self, records, counters, rollout):
        """Checks that the devices that are not enrolled had no effect on the rollout, and are reported."""
        if not counters:
            return {}
        done = sum(device["confirmations"] for device in counters)
        self.demand(done == 0, f"{done} strangers confirmed the image")
        ended = [record for record in records if record["state"] == "given-up"]
        reasons = Counter(record["reason"] for record in ended)
        self.demand(set(reasons) == {"protocol-violation"}, f"strangers by reason: {dict(reasons)}, expected only protocol-violation")
        counts = rollout["devices"]
        self.demand(counts["failed"] == 0 and counts["refused"] == 0, f"enrolled devices: {counts}, expected no failure")
        reported = sum(rollout.get("not_enrolled", {}).values())
        self.demand(0 < reported <= len(counters), f"{reported} strangers are reported, expected 1 to {len(counters)}")
        return {"strangers_given_up": len(ended), "strangers_reported": reported}

    def events(self, events, count):
        """Checks that no device has two results. The gateway may have been killed between the record and the event."""
        results = Counter(event["device"] for event in events if event["kind"] == "updated")
        double = [device for device, number in results.items() if number > 1]
        self.demand(not double, f"{len(double)} devices have two results in the history: {double[:5]}")
        kinds = Counter(event["kind"] for event in events)
        return {"double_results": len(double), "without_event": count - len(results), "events": dict(kinds.most_common())}

    def halt(self, counters, exit_status, slots, canary):
        """Checks a rollout of a firmware that crashes."""
        self.demand(exit_status == 78, f"rollout status --wait ended with {exit_status}, expected 78")
        crashed = sum(device["crashes"] > 0 for device in counters)
        confirmed = sum(device["confirmations"] for device in counters)
        self.demand(confirmed == 0, f"{confirmed} devices confirmed the crashing image")
        touched = sum(device["accepted_bytes"] > 0 for device in counters)
        self.demand(touched <= canary, f"{touched} devices received bytes, but the first stage has {canary}")
        return {"crashed": crashed, "received_bytes": touched, "canary": canary, "overshoot_limit": slots}


def local_salt(store):
    """Returns the salt of the rollout in a local store."""
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=30) as database:
        record = database.execute("SELECT bytes FROM record WHERE bucket = 'rollouts' AND name = 'chaos'").fetchone()[0]
    return salt(record)


NATS_ROLLOUT = """
import asyncio, nats, sys
async def main():
    client = await nats.connect(sys.argv[1].split(','))
    bucket = await client.jetstream().key_value("otaflash_rollouts")
    print((await bucket.get("chaos")).value.decode())
    await client.close()
asyncio.run(main())
"""


def nats_salt(python, url):
    """Returns the salt of the rollout on a NATS server."""
    return salt(subprocess.run([python, "-c", NATS_ROLLOUT, url], check=True, capture_output=True).stdout)


def salt(record):
    return bytes.fromhex(json.loads(base64.b64decode(json.loads(record)["payload"]))["salt"])


def local_events(store):
    """Returns the events of a local store."""
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=30) as database:
        rows = database.execute("SELECT device, gateway, attempt, kind FROM event ORDER BY number").fetchall()
    return [dict(zip(("device", "gateway", "attempt", "kind"), row)) for row in rows]


NATS_EVENTS = """
import asyncio, json, nats, sys
async def main():
    client = await nats.connect(sys.argv[1].split(','))
    subscription = await client.jetstream().subscribe("otaflash.event.>", ordered_consumer=True)
    total = (await client.jetstream().stream_info("otaflash_events")).state.messages
    for _ in range(total):
        print((await subscription.next_msg(timeout=30)).subject)
    await client.close()
asyncio.run(main())
"""


def nats_events(python, url):
    """Returns the events of a store on a NATS server, read with another client than ours."""
    output = subprocess.run([python, "-c", NATS_EVENTS, url], check=True, capture_output=True, text=True).stdout
    parts = [line.split(".") for line in output.split()]
    return [{"device": part[3], "gateway": part[4], "attempt": int(part[5]), "kind": part[6]} for part in parts]
