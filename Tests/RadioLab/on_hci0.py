#!/usr/bin/env python3
"""Runs a Python module on hci0: on_hci0.py MODULE ARGUMENT... Clients that have no word for the adapter take bleak's, the first of a
set, in any order: sometimes the device's own."""

import runpy
import sys

from bleak.backends.bluezdbus.manager import BlueZManager

BlueZManager.get_default_adapter = lambda self: "/org/bluez/hci0"
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
