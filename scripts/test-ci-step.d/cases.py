"""The list of tests, and what several tests require."""
import os
import subprocess

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def require(condition, result):
    if not condition:
        raise AssertionError(str(result))


def require_failure(job, before, result, exit, code, stage, file="fw.bin"):
    """Requires that the step failed, reported the failure once and completely, and left no file."""
    require(result.exit == exit, result)
    require([command for command, *_ in result.commands] == ["error"], result)
    _, properties, message = result.commands[0]
    require(properties == {"file": file, "title": f"otaflash {stage}: {code}"} and message, result)
    require(f"<tr><td>{stage}</td><td>{code}</td>" in result.summary and "nothing is published" in result.summary, result)
    require(not result.outputs, result)
    require(job.files() == before, job.files() ^ before)


def fails(job, exit, code, stage, **arguments):
    before = job.files()
    require_failure(job, before, job.run(**arguments), exit, code, stage, arguments.get("image", "fw.bin"))


def sum_holds(job, bundle):
    """Returns whether sha256sum accepts the published checksum."""
    folder, name = os.path.split(bundle)
    return subprocess.run(
        ["sha256sum", "--check", "--strict", "--status", "--", name + ".sha256"], cwd=job.checkout / folder).returncode == 0
