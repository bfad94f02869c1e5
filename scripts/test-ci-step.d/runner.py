"""A model of GitHub's runner: it starts ci/release-step, and reads its output and its files as the runner does.

Source: github.com/actions/runner, ActionCommandManager.cs and ActionCommand.cs for commands, FileCommandManager.cs for GITHUB_OUTPUT.
"""
import json
import os
import re
import shutil
import subprocess

COMMANDS = {
    "add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group", "notice", "remove-matcher", "save-state",
    "set-env", "set-output", "stop-commands", "warning",
}


def unescape(text, *more):
    for escaped, plain in (("%0D", "\r"), ("%0A", "\n"), *more, ("%25", "%")):
        text = text.replace(escaped, plain)
    return text


def parse(line, known):
    """Returns (command, properties, data), or None if the line is not a command."""
    stripped = line.lstrip()
    if stripped.startswith("::") and "::" in stripped[2:]:
        head, data = stripped[2:].split("::", 1)
        command, _, rest = head.partition(" ")
        if command in known:
            pairs = (pair.split("=", 1) for pair in rest.strip().split(",") if "=" in pair)
            properties = {name: unescape(value, ("%3A", ":"), ("%2C", ",")) for name, value in pairs}
            return command, properties, unescape(data)
    # The old form of a command, ##[command], can be anywhere in a line.
    found = re.search(r"##\[([^\]\s]*)([^\]]*)\](.*)", line)
    return (found[1], {}, found[3]) if found and found[1] in known else None


def executed(log):
    """Returns the commands that the runner executes, except stop-commands."""
    found, token = [], None
    for line in log.split("\n"):
        command = parse(line, COMMANDS | ({token} if token else set()))
        if command is None:
            continue
        if token:
            token = None if command[0] == token else token
        elif command[0] == "stop-commands":
            token = command[2]
        else:
            found.append(command)
    assert token is None, "commands are still stopped at the end"
    return found


def outputs(text):
    """Returns the outputs in the text of the file GITHUB_OUTPUT."""
    found, lines = {}, iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if heredoc >= 0 and not 0 <= equals < heredoc:
            name, word = line.split("<<", 1)
            value = []
            for part in lines:
                if part == word:
                    break
                value.append(part)
            else:
                raise AssertionError("no end of the value")
            found[name] = "\n".join(value)
        else:
            name, value = line.split("=", 1)
            found[name] = value
    return found


class Result:
    def __init__(self, run, folder):
        self.exit, self.log, self.out, self.err = run.returncode, run.stdout + run.stderr, run.stdout, run.stderr
        self.commands = executed(self.log)
        self.outputs = outputs(self.read(folder / "output"))
        self.summary = self.read(folder / "summary")

    @staticmethod
    def read(path):
        return path.read_bytes().decode(errors="surrogateescape") if path.exists() else ""

    def __str__(self):
        return f"exit {self.exit}\n{self.log}\n{self.outputs}\n{self.summary}"


class Job:
    """A checkout with a firmware image and keys, and the folders of a runner."""

    def __init__(self, template, folder, step, otaflash):
        self.folder, self.step, self.otaflash = folder, step, otaflash
        self.checkout, self.temporary = folder / "checkout", folder / "temporary"
        shutil.copytree(template, self.checkout, symlinks=True)
        self.temporary.mkdir()
        self.runs = 0

    def run(self, env=None, path=None, github=True, script=None, **inputs):
        """Runs the step with the inputs that an action has: image="fw.bin" becomes INPUT_IMAGE. None removes an input.

        `script` is a bash script that is run in place of the step."""
        self.runs += 1
        files = self.folder / f"run-{self.runs}"
        files.mkdir()
        given = {"image": "fw.bin", "trust": "release.pub.pem", "key": "release.pem", "product": "acme-lamp", "version": "1.1.0",
                 "counter": "5", "smoke_test": "false", **inputs}
        variables = {
            "PATH": f"{path or self.otaflash.parent}:{os.environ['PATH']}", "HOME": str(self.folder), "RUNNER_TEMP": str(self.temporary),
            "LANG": "C.UTF-8", **{f"INPUT_{name.upper()}": value for name, value in given.items() if value is not None},
        }
        if github:
            variables |= {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(files / "output"), "GITHUB_STEP_SUMMARY": str(files / "summary")}
        run = subprocess.run(
            [self.step] if script is None else ["bash", "-e", "-o", "pipefail", "-c", script], cwd=self.checkout, env=variables | (env or {}), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="surrogateescape", timeout=120)
        return Result(run, files)

    def wrap(self, script):
        """Returns a folder with a program otaflash that runs `script`. In it, $otaflash is the real program."""
        folder = self.folder / "wrapper"
        folder.mkdir(exist_ok=True)
        program = folder / "otaflash"
        program.write_text(f"#!/usr/bin/env bash\nset -e\notaflash='{self.otaflash}'\n{script}\n")
        program.chmod(0o755)
        return folder

    def files(self):
        """Returns the paths of the files in the checkout and in the runner's temporary folder."""
        found = (path for top in (self.checkout, self.temporary) for path in top.rglob("*") if ".git" not in path.parts)
        return {str(path.relative_to(self.folder)) for path in found}

    def inspect(self, bundle):
        run = subprocess.run([self.otaflash, "inspect", "--format=json", "--", bundle], cwd=self.checkout, capture_output=True, check=True)
        return json.loads(run.stdout)["bundle"]
