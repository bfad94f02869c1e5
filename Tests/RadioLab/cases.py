"""How a case of the radio lab is written: a function of a Lab, in one of the modules that run_cases.py names."""

import subprocess
from dataclasses import dataclass

registered = []


class Skip(Exception):
    """This case cannot be run here, and why."""


@dataclass
class Case:
    name: str
    limit: float
    otaflash: bool
    alone: bool
    function: object


def case(limit=60, otaflash=True, alone=False):
    """Registers a function as a case; `limit` in seconds, `otaflash` where it needs the program, `alone` where it measures and no other
    guest is to run beside it."""

    def register(function):
        registered.append(Case(function.__name__, limit, otaflash, alone, function))
        return function

    return register


def quiet(*words, check=True):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=check)
