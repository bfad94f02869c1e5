#!/usr/bin/env python3
"""Writes a manual page in mdoc for each verb: manuals.py [--verbs] BINARY FOLDER

The text is the binary's own help, which --experimental-dump-help prints as JSON. The argument parser's plugin for manual pages is not used:
its pages have no correct name line for apropos and show the date of the build, and the plugin compiles for two minutes.
The date of the pages is SOURCE_DATE_EPOCH. With --verbs, the program itself gets no page: otaflash-fleet has the name otaflash in its help.
"""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap

def text(words):
    """Returns the words as roff text: no character acts as a macro or an escape, each sentence begins a line, and no line is long."""
    sentences = re.split(r"""(?<=[A-Za-z0-9)'"]\.) (?=[A-Z$])""", words)
    lines = [line for sentence in sentences for line in textwrap.wrap(sentence, 78, break_long_words=False, break_on_hyphens=False) or [""]]
    lines = [line.replace("\\", "\\e").replace("-", "\\-") for line in lines]
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in lines)


def literal(line):
    """Returns roff text for a line that keeps its spaces."""
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line.startswith((".", "'")) else line


def paragraphs(discussion):
    """Yields the paragraphs of a discussion as roff text. A paragraph with an indented line keeps its line breaks."""
    for paragraph in re.split(r"\n\s*\n", discussion.strip("\n")):
        lines = paragraph.split("\n")
        yield ".Pp"
        if any(line.startswith((" ", "\t")) for line in lines):
            yield from (".Bd -literal -compact", *(literal(line) for line in lines), ".Ed")
        else:
            yield text(" ".join(lines))


def value(argument):
    return f" Ar {text(argument['valueName'])}"


def spelled(argument):
    """Returns the names and the value of an option in mdoc, such as: Fl -device Ar address."""
    if argument["kind"] == "positional":
        return f"Ar {text(argument['valueName'])}"
    names = " , ".join("Fl " + ("\\-" if name["kind"] == "long" else "") + text(name["name"]) for name in argument["names"])
    return names + (value(argument) if argument["kind"] == "option" else "")


def synopsis(argument):
    line = spelled(argument)
    if argument["kind"] != "positional":
        preferred = argument["preferredName"]
        line = "Fl " + ("\\-" if preferred["kind"] == "long" else "") + text(preferred["name"])
        line += value(argument) if argument["kind"] == "option" else ""
    if argument["isRepeating"]:
        line += " ..."
    return (".Op " if argument["isOptional"] else ".") + line


def entry(argument):
    yield ".It " + spelled(argument)
    words = argument.get("abstract", "")
    notes = []
    if argument.get("allValues"):
        notes.append("values: " + ", ".join(argument["allValues"]))
    if argument.get("defaultValue") and argument["kind"] == "option":
        notes.append("default: " + argument["defaultValue"])
    if notes:
        words = f"{words} ({'; '.join(notes)})".strip()
    yield text(words)
    if argument.get("discussion"):
        yield from paragraphs(argument["discussion"])


def page(command, date):
    path = [*command.get("superCommands", []), command["commandName"]]
    name = "-".join(path)
    arguments = [argument for argument in command.get("arguments", []) if argument["shouldDisplay"]]
    verbs = [verb for verb in command.get("subcommands", []) if verb["shouldDisplay"] and verb["commandName"] != "help"]
    yield from (f".Dd {date}", f".Dt {name.upper()} 1", ".Os", ".Sh NAME", f".Nm {name}",
                f".Nd {text(command['abstract'].rstrip('.'))}", ".Sh SYNOPSIS", f".Nm {' '.join(path)}")
    yield from (synopsis(argument) for argument in arguments)
    if verbs:
        yield ".Ar command ..."
    if command.get("discussion"):
        yield ".Sh DESCRIPTION"
        yield from list(paragraphs(command["discussion"]))[1:]
    if verbs:
        yield from (".Sh COMMANDS", ".Bl -tag -width Ds")
        for verb in verbs:
            yield from (f".It Xr {name}-{verb['commandName']} 1", text(verb["abstract"]))
        yield ".El"
    sections = dict.fromkeys(argument.get("sectionTitle") or "Options" for argument in arguments)
    for section in sections:
        yield from (f".Sh {section.upper()}", ".Bl -tag -width Ds")
        for argument in arguments:
            if (argument.get("sectionTitle") or "Options") == section:
                yield from entry(argument)
        yield ".El"
    if len(path) == 1:
        yield from (".Sh EXIT STATUS", "The exit codes are those of", ".In sysexits.h :",
                    "0 for success, 64 for wrong arguments, 65 for wrong data, 69 for what is not available,",
                    "75 for a failure after which the same command can be tried again, 77 for a refusal.",
                    "The documentation describes each error code and its exit code.")
    else:
        parent = "-".join(path[:-1])
        yield from (".Sh SEE ALSO", f".Xr {parent} 1")


def commands(command):
    yield command
    for verb in command.get("subcommands", []):
        if verb["shouldDisplay"] and verb["commandName"] != "help":
            yield from commands(verb)


def main(*words):
    *options, binary, folder = words
    dumped = subprocess.run([binary, "--experimental-dump-help"], check=True, capture_output=True, text=True).stdout
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    date = f"{time:%B} {time.day}, {time.year}"
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for command in commands(json.loads(dumped)["command"]):
        name = "-".join([*command.get("superCommands", []), command["commandName"]])
        if options == ["--verbs"] and not command.get("superCommands"):
            continue
        pathlib.Path(folder, name + ".1").write_text("\n".join(page(command, date)) + "\n")


main(*sys.argv[1:])
