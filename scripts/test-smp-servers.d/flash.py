"""Writes firmware to the memory of a stopped QEMU, over the protocol of GDB.

The option -device loader writes the files again at each reset. A device would then lose each update at its restart, and would also run its
old image again without a rollback. So these servers start with an empty memory, and this module writes the files once.
"""

import re
import socket

from intelhex import IntelHex

LOADER = re.compile(r" -device loader,file=([^, ]+)(?:,addr=(0x[0-9a-fA-F]+))?")
OPTIONS = " -S -chardev socket,id=gdb,path=gdb,server=on,wait=off -gdb chardev:gdb"


def without_loader(command):
    return LOADER.sub("", command) + OPTIONS


def segments(command, folder):
    """Yields address and bytes of each segment in the files of -device loader."""
    for name, address in LOADER.findall(command):
        if address:
            yield int(address, 16), (folder / name).read_bytes()
        else:
            file = IntelHex(str(folder / name))
            for start, end in file.segments():
                yield start, file.tobinstr(start=start, end=end - 1)


class Debugger:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.stream = self.socket.makefile("rb")

    def ask(self, text):
        """Sends a packet, and returns the answer."""
        self.socket.sendall(f"${text}#{sum(text.encode()) & 0xFF:02x}".encode())
        # QEMU reports with T that it has stopped the processor, at any time after the connection.
        while (answer := self.receive()).startswith("T"):
            pass
        return answer

    def receive(self):
        answer = b""
        while not answer.endswith(b"#"):
            letter = self.stream.read(1)
            if not letter:
                raise RuntimeError("QEMU closed the connection of the debugger")
            answer = answer + letter if letter not in b"+$" else b""
        self.stream.read(2)
        self.socket.sendall(b"+")
        return answer[:-1].decode()

    def write(self, address, data):
        for offset in range(0, len(data), 1024):
            part = data[offset:offset + 1024]
            answer = self.ask(f"M{address + offset:x},{len(part):x}:{part.hex()}")
            if answer != "OK":
                raise RuntimeError(f"QEMU did not write {len(part)} bytes at {address + offset:#x}: {answer}")

    def reset(self):
        """Resets the processor, which then reads its start address from the new memory."""
        answer = self.ask("qRcmd," + b"system_reset".hex())
        if answer != "OK":
            raise RuntimeError(f"QEMU did not reset the processor: {answer}")

    def run(self):
        """Ends the connection, so that the processor runs."""
        self.ask("D")
        self.stream.close()
        self.socket.close()


def start(command, folder):
    debugger = Debugger(str(folder / "gdb"))
    for address, data in segments(command, folder):
        debugger.write(address, data)
    debugger.reset()
    debugger.run()


def overwrite(folder, address, data):
    """Changes the memory of a running server."""
    debugger = Debugger(str(folder / "gdb"))
    debugger.write(address, data)
    debugger.run()
