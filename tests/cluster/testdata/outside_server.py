# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0

# An HTTP server with connections that stay open, plain and with TLS, outside of all jobs. It
# answers with the double of the number it is asked for; to /slow when the file go is there, or a
# connection other than the first asks; to an upload with its hash; to /bytes/N with N bytes.
import hashlib
import http.server
import os
import ssl
import sys
import threading
import time

slow = 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global slow
        if self.path == "/slow":
            slow += 1
            if slow == 1:
                while not os.path.exists(sys.argv[1] + "/go"):
                    time.sleep(0.05)
            body = b"served"
        elif self.path.startswith("/bytes/"):
            body = b"".join(b"%07d\n" % n for n in range(int(self.path[7:]) // 8))
        else:
            body = str(2 * int(self.path[1:])).encode()
        self.answer(body)

    def do_PUT(self):
        digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
        while left > 0:
            piece = self.rfile.read(min(left, 1 << 16))
            if not piece:
                raise ConnectionError("the upload ends early")
            digest.update(piece)
            left -= len(piece)
        self.answer(digest.hexdigest().encode())

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


plain = http.server.ThreadingHTTPServer(("", 8080), Handler)
tls = http.server.ThreadingHTTPServer(("", 8443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/cert.pem", sys.argv[1] + "/key.pem")
tls.socket = context.wrap_socket(tls.socket, server_side=True)
threading.Thread(target=tls.serve_forever, daemon=True).start()
plain.serve_forever()
