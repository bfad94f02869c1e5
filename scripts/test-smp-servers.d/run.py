"""Runs otaflash on the servers, and prints a table of the results and the output of each failure. scripts/test-smp-servers describes it."""

import argparse
import concurrent.futures
import contextlib
import logging
import os
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import client
from checks import TESTS, Bench
from images import Images
from servers import Server, descriptions

# The servers over UDP have the same port.
PORT = threading.Lock()


def play(function, description, folder, otaflash, images):
    """Runs one test on a new server. Returns None, or the output of the failure."""
    bench = server = None
    try:
        server = Server(description, folder)
        if description.target == "qemu_cortex_m0":
            # Bytes that arrive while this target starts can stop its serial port for ever.
            time.sleep(2)
        client.is_ready(server)
        bench = Bench(server, otaflash, images)
        function(bench)
        return None, False
    except Exception as trouble:
        lines = bench.transcript if bench else []
        lines += [traceback.format_exc()] + ([server.output.decode(errors="replace")[-2000:]] if server else [])
        return "\n".join(lines), isinstance(trouble, client.Silent)
    finally:
        if server:
            server.close()


def result_of(function, description, folder, otaflash, images):
    """Returns the word for the table, and the output of a failure."""
    with PORT if description.is_udp else contextlib.nullcontext():
        failure, is_silent = play(function, description, folder, otaflash, images)
        # An emulated serial port drops bytes when the machine is busy. That of qemu_cortex_m0 then never answers again.
        if failure and is_silent and description.is_emulated:
            failure, _ = play(function, description, folder, otaflash, images)
            return ("FAILED", failure) if failure else ("ok, 2nd", None)
    return ("FAILED", failure) if failure else ("ok", None)


def table(chosen, results):
    heads = [function.__name__.replace("_", " ") for function in TESTS]
    width = max(len(description.name) for description in chosen)
    yield "  ".join(["server".ljust(width)] + [head.ljust(9) for head in heads])
    for description in chosen:
        words = [results.get((description.name, function.__name__), ("-",))[0] for function in TESTS]
        yield "  ".join([description.name.ljust(width)] + [word.ljust(9) for word in words])


def main():
    parser = argparse.ArgumentParser(prog="test-smp-servers", description=__doc__)
    parser.add_argument("otaflash", type=Path)
    parser.add_argument("servers", type=Path, help="the folder with manifest.json")
    parser.add_argument("name", nargs="*", help="run only servers and tests with one of these parts in their names; default: all")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    found = descriptions(options.servers)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        images = Images(folder / "images")
        images.any = images.sign(next(description for description in found if description.has_trial))
        pairs = [(description, function) for description in found for function in TESTS if function.applies(description)]
        if options.name:
            pairs = [pair for pair in pairs if any(part in f"{pair[0].name} {pair[1].__name__}" for part in options.name)]
        chosen = [description for description in found if any(description is pair[0] for pair in pairs)]
        if not pairs:
            sys.exit("test-smp-servers: no server and no test has this name")
        # The long tests first.
        pairs.sort(key=lambda pair: (pair[1].__name__ in ("status", "wrong_key", "too_large"), not pair[0].has_images))
        results = {}
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            running = {
                pool.submit(
                    result_of, function, description, folder / f"{description.config}-{function.__name__}", options.otaflash, images
                ): (description.name, function.__name__)
                for description, function in pairs
            }
            for future in concurrent.futures.as_completed(running):
                results[running[future]] = future.result()
        for line in table(chosen, results):
            print(line)
        failures = {key: failure for key, (_, failure) in results.items() if failure}
        for (server, name), failure in failures.items():
            print(f"\nFAILED  {server}: {name.replace('_', ' ')}\n{failure}")
        print(f"\n{len(chosen)} servers, {len(results)} tests, {len(failures)} failed, after {time.monotonic() - begun:.0f} s")
        return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
