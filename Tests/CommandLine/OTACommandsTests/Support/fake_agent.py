"""An SSH agent that answers each request with the same bytes: fake_agent.py SOCKET HEX

The bytes are sent as they are, with their length field. `-` in place of HEX: it never answers.
"""

import os
import socket
import sys
import time

server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1] + ".new")
server.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    connection, _ = server.accept()
    connection.recv(1 << 20)
    if sys.argv[2] == "-":
        time.sleep(600)
    connection.sendall(bytes.fromhex(sys.argv[2]))
    connection.close()
