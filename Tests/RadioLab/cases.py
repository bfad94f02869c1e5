"""Registers the cases of the radio lab. A case is a function of a Lab, in one of the modules that run_cases.py lists."""

import subprocess
from dataclasses import dataclass

registered = []


class Skip(Exception):
    """The case cannot run here; the message is the reason."""


@dataclass
class Case:
    name: str
    limit: float
    otaflash: bool
    real: bool
    example: str
    function: object


def case(limit=60, otaflash=True, real=False, example=None):
    """Registers a function as a case. `limit` is in seconds. `otaflash`: the case needs the program. `real`: the case measures this
    machine, so it runs in real time and alone. `example`: the case needs this program of Examples/, and not otaflash."""

    def register(function):
        registered.append(Case(function.__name__, limit, otaflash and not example, real, example, function))
        return function

    return register


def quiet(*words, check=True):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=check)
