# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0

# An HTTP server with connections that stay open, plain and with TLS, outside of all jobs. It
# answers with the double of the number it is asked for; to /slow when the file go is there, or a
# connection other than the first asks.
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
            text = "served"
        else:
            text = str(2 * int(self.path[1:]))
        body = text.encode()
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
