"""A terminal on which a case types, and whose screen it compares: tmux."""

import shlex
import subprocess

from lab import until


class Screen:
    """A program on a terminal of its own. When the program has ended, the terminal shows its exit code. The terminal ends with the case."""

    def __init__(self, lab, *words, width=60, height=12):
        self.tmux = ["tmux", "-u", "-S", lab.folder / "tmux", "-f", "/dev/null"]
        # In virtual time, tmux does not get the exit status of the program (tmux 3.3a). So a shell prints it.
        program = f"{shlex.join(map(str, words))}; echo exit code $?; exec cat"
        self.command("new-session", "-d", "-x", str(width), "-y", str(height), program)
        lab.stack.callback(self.command, "kill-server")

    def command(self, *words):
        return subprocess.run([*self.tmux, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout

    def type(self, text):
        print(f"types {text!r}", flush=True)
        self.command("send-keys", "-l", text)

    def lines(self):
        return [line.rstrip() for line in self.command("capture-pane", "-p").rstrip("\n").split("\n")]

    def until_shows(self, *expected, seconds=15):
        """Waits until the screen has exactly these lines, and returns them."""
        try:
            until(lambda: self.lines() == list(expected), seconds, "")
        except AssertionError:
            raise AssertionError("not on the screen: " + repr(list(expected)) + "; the screen has: " + repr(self.lines())) from None
        print("screen:", *expected, sep="\n  ", flush=True)
        return expected
