# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0

# An HTTP server with connections that stay open, plain and with TLS, outside of all jobs. It
# answers with the double of the number it is asked for; to /slow when the file go is there, or a
# connection other than the first asks; to an upload with its hash; to /bytes/N with N bytes. With
# ?until=FILE it stops before the second half of its work until there is such a file beside this program.
import hashlib
import http.server
import os
import ssl
import sys
import threading
import time

slow = 0


def wait_for(name):
    """Until there is a file of that name beside this program; "" is none."""
    while name and not os.path.exists(os.path.join(os.path.dirname(__file__), name)):
        time.sleep(0.05)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global slow
        path, _, until = self.path.partition("?until=")
        if path == "/slow":
            slow += 1
            if slow == 1:
                while not os.path.exists(sys.argv[1] + "/go"):
                    time.sleep(0.05)
            body = b"served"
        elif path.startswith("/bytes/"):
            body = b"".join(b"%07d\n" % n for n in range(int(path[7:]) // 8))
        else:
            body = str(2 * int(path[1:])).encode()
        self.answer(body, until)

    def do_PUT(self):
        _, _, until = self.path.partition("?until=")
        digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
        half = left // 2
        while left > 0:
            if left <= half:
                wait_for(until)
            piece = self.rfile.read(min(left, 1 << 16))
            if not piece:
                raise ConnectionError("the upload ends early")
            digest.update(piece)
            left -= len(piece)
        self.answer(digest.hexdigest().encode())

    def answer(self, body, until=""):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        half = len(body) // 2
        self.wfile.write(body[:half])
        wait_for(until)
        self.wfile.write(body[half:])

    def log_message(self, *args):
        pass


plain = http.server.ThreadingHTTPServer(("", 8080), Handler)
tls = http.server.ThreadingHTTPServer(("", 8443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/cert.pem", sys.argv[1] + "/key.pem")
tls.socket = context.wrap_socket(tls.socket, server_side=True)
threading.Thread(target=tls.serve_forever, daemon=True).start()
plain.serve_forever()
