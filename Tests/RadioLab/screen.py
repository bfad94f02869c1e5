"""A terminal on which a case types, and whose screen it compares: tmux."""

import shlex
import subprocess
from contextlib import suppress

from lab import until


class Screen:
    """A program on a terminal of its own. Each screen of a case needs its own name. When the program has ended, the terminal shows its exit code. The terminal ends with the case.

    One process controls the terminal (tmux's control mode), because a process for each command would take most of the case's time."""

    def __init__(self, lab, *words, width=60, height=12, name="tmux"):
        # In virtual time, tmux does not get the exit status of the program (tmux 3.3a). So a shell prints it.
        program = f"{shlex.join(map(str, words))}; echo exit code $?; exec cat"
        self.tmux = subprocess.Popen(
            ["tmux", "-u", "-S", lab.folder / name, "-f", "/dev/null", "-C", "new-session", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", bufsize=1,
        )
        lab.stack.callback(self.close)
        self.answer()
        self.command("refresh-client", "-C", f"{width},{height}")

    def close(self):
        """Closes the terminal, as a person closes its window. The program gets SIGHUP. tmux does not answer this command."""
        if self.tmux.poll() is None:
            with suppress(BrokenPipeError):
                self.tmux.stdin.write("kill-server\n")
            self.tmux.wait(5)

    def answer(self):
        """Returns the lines of the next answer: between %begin and %end. Notifications of tmux are outside."""
        lines = None
        for line in self.tmux.stdout:
            if line.startswith("%begin "):
                lines = []
            elif lines is not None and line.startswith(("%end ", "%error ")):
                assert line.startswith("%end "), lines
                return lines
            elif lines is not None:
                lines.append(line.rstrip())
        raise AssertionError("tmux has ended")

    def command(self, *words):
        self.tmux.stdin.write(shlex.join(words) + "\n")
        return self.answer()

    def type(self, text):
        print(f"types {text!r}", flush=True)
        self.command("send-keys", "-l", text)

    def press(self, *keys):
        """Presses keys by their tmux names, such as Enter."""
        print(f"presses {' '.join(keys)}", flush=True)
        self.command("send-keys", *keys)

    def lines(self):
        return "\n".join(self.command("capture-pane", "-p")).rstrip("\n").split("\n")

    def until_has(self, *parts, seconds=15):
        """Waits until the screen contains these parts of lines, and returns its lines."""
        shown = []

        def has():
            shown[:] = self.lines()
            return all(any(part in line for line in shown) for part in parts)

        try:
            until(has, seconds, "")
        except AssertionError:
            raise AssertionError(f"not on the screen: {parts}; the screen has: {shown}") from None
        print("screen:", *shown, sep="\n  ", flush=True)
        return shown

    def until_shows(self, *expected, seconds=15):
        """Waits until the screen has exactly these lines, and returns them."""
        try:
            until(lambda: self.lines() == list(expected), seconds, "")
        except AssertionError:
            raise AssertionError("not on the screen: " + repr(list(expected)) + "; the screen has: " + repr(self.lines())) from None
        print("screen:", *expected, sep="\n  ", flush=True)
        return expected
