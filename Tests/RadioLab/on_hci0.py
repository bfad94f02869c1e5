#!/usr/bin/env python3
"""Runs a Python module on hci0: on_hci0.py MODULE ARGUMENT... Clients without an option for the adapter use bleak's
default. That is the first of an unordered set, and sometimes the device's own adapter."""

import runpy
import sys

from bleak.backends.bluezdbus.manager import BlueZManager

BlueZManager.get_default_adapter = lambda self: "/org/bluez/hci0"
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
