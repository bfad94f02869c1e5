"""Runs many imgtool commands in one process.

Each input line contains the arguments, separated by tabs. Each output line is `status TAB output`.
"""

import contextlib
import io
import sys

from imgtool.main import imgtool


def run(arguments):
    output = io.StringIO()
    status = 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            imgtool.main(arguments, prog_name="imgtool", standalone_mode=False)
        except SystemExit as exit:
            status = exit.code
        except Exception as error:
            print(type(error).__name__, error)
            status = 1
    return status or 0, output.getvalue()


for line in sys.stdin:
    status, output = run(line.rstrip("\n").split("\t"))
    print(status, output.encode("unicode_escape").decode(), sep="\t")
