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
    function: object


def case(limit=60, otaflash=True, real=False):
    """Registers a function as a case. `limit` is in seconds. `otaflash`: the case needs the program. `real`: the case measures this
    machine, so it runs in real time and alone."""

    def register(function):
        registered.append(Case(function.__name__, limit, otaflash, real, function))
        return function

    return register


def quiet(*words, check=True):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=check)
