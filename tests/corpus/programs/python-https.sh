#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: python: an HTTPS server with threads, clients that keep their connections, chunked answers
# Needs: python3 openssl
#SBATCH --job-name=python-https --ntasks=1 --output=log
set -eu
openssl req -x509 -newkey rsa:2048 -nodes -keyout /tmp/key.pem -out /tmp/cert.pem -days 3650 -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
echo "has a certificate"
cat >https.py <<'PY'
import hashlib, http.client, http.server, json, ssl, threading, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (body[:10], hashlib.sha256(body).hexdigest().encode(), body[10:]):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
            time.sleep(0.02)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *a):
        pass

def client(n, port, out):
    trust = ssl.create_default_context(cafile="/tmp/cert.pem")
    connection, h = http.client.HTTPSConnection("localhost", port, context=trust), hashlib.sha256()
    for turn in range(60):
        connection.request("POST", "/", json.dumps({"client": n, "turn": turn, "data": "x" * turn * 50}))
        h.update(connection.getresponse().read())
        time.sleep(0.05)
        if turn % 20 == 19:
            out.append((n, turn, h.hexdigest()))
    connection.close()

if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain("/tmp/cert.pem", "/tmp/key.pem")
    server.socket = own.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    out = []
    clients = [threading.Thread(target=client, args=(n, server.server_address[1], out)) for n in range(3)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    server.shutdown()
    for line in sorted(out):
        print(*line)
PY
python3 https.py
