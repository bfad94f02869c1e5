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
    real: bool
    function: object


def case(limit=60, otaflash=True, real=False):
    """Registers a function as a case; `limit` in seconds, `otaflash` where it needs the program, `real` where it measures this machine: in
    real time, with nothing beside it."""

    def register(function):
        registered.append(Case(function.__name__, limit, otaflash, real, function))
        return function

    return register


def quiet(*words, check=True):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=check)
