# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0

# A client of a server outside of the job, as people write them. Arguments: the way, and the
# server's host. It counts to 100, tells the server each number, and says when it had to connect again. Before number 90 it
# waits for the file that UNTIL names, if that is set: so a test on a slow machine is not late.
import http.client
import os
import ssl
import sys
import time
import urllib.request

way, host = sys.argv[1], sys.argv[2]
again = 0


def unverified():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def keep_alive(connect):
    """One connection for all requests; when it breaks, another one, like a tracker's client."""
    state = {"connection": connect()}

    def tell(n):
        global again
        for attempt in range(5):
            try:
                state["connection"].request("GET", f"/{n}")
                return state["connection"].getresponse().read().decode().strip()
            except (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected) as e:
                again += 1
                state["connection"].close()
                time.sleep(0.2 * attempt)
        raise SystemExit("the server cannot be reached")

    return tell


def requests_session():
    """urllib3 notices by itself that a connection of its pool is gone."""
    import requests

    session = requests.Session()
    return lambda n: session.get(f"http://{host}:8080/{n}", timeout=30).text.strip()


def waiting():
    """A connection on which the program does nothing but wait: it must wake up."""
    global again
    for attempt in range(2):
        try:
            print("waits", flush=True)
            print(urllib.request.urlopen(f"http://{host}:8080/slow", timeout=120).read().decode().strip(), flush=True)
            return
        except ConnectionResetError:
            again += 1
    raise SystemExit("reset twice")


if way == "waiting":
    waiting()
    print("again", again)
    sys.exit()
tell = {
    "http": lambda: keep_alive(lambda: http.client.HTTPConnection(host, 8080, timeout=30)),
    "tls": lambda: keep_alive(lambda: http.client.HTTPSConnection(host, 8443, timeout=30, context=unverified())),
    "requests": requests_session,
}[way]()
until = os.environ.get("UNTIL")
for n in range(100):
    while n == 90 and until and not os.path.exists(until):
        time.sleep(0.1)
    print(n, tell(n), flush=True)
    time.sleep(float(os.environ.get("PACE", "0.15")))
print("again", again)
