"""A pseudo-terminal in front of a serial port of QEMU."""

import os
import select
import socket
import threading
import time
import tty

# A number that divides no length of a packet, so that the losses are at different places of the packets.
LOST_BYTES = 7


class Console:
    """Copies bytes between a pseudo-terminal and QEMU's socket, and counts the bytes that the device receives.

    QEMU's own pseudo-terminal holds back the last byte of a frame until more bytes arrive. Its socket does not.
    """

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self.socket.connect(os.path.relpath(path))
        except OSError:
            self.socket.close()
            raise
        self.received = 0
        # The line loses LOST_BYTES of each `loss_interval` bytes to the device; None: it loses nothing.
        self.loss_interval = None
        self.ends = False
        self.old = []
        self.plug()
        self.thread = threading.Thread(target=self.copy, daemon=True)
        self.thread.start()

    def plug(self):
        """Makes a new terminal, as if the adapter had been plugged in again. A killed program still has exclusive use of the old one."""
        self.master, port = os.openpty()
        tty.setraw(port)
        self.path = os.ttyname(port)
        os.close(port)
        self.old.append(self.master)

    def copy(self):
        while not self.ends:
            master = self.master
            poll = select.poll()
            poll.register(master, select.POLLIN)
            poll.register(self.socket, select.POLLIN)
            events = dict(poll.poll(50))
            if events.get(master, 0) & select.POLLIN:
                data = os.read(master, 4096)
                self.socket.sendall(bytes(self.arriving(data)))
            elif master in events:
                # No program has the terminal open.
                time.sleep(0.005)
            if self.socket.fileno() in events:
                data = self.socket.recv(4096)
                if not data:
                    return
                os.write(master, data)

    def arriving(self, data):
        """Yields the bytes that the line does not lose."""
        for byte in data:
            self.received += 1
            if not self.loss_interval or self.received % self.loss_interval >= LOST_BYTES:
                yield byte

    def close(self):
        self.ends = True
        self.thread.join()
        self.socket.close()
        for master in self.old:
            os.close(master)
