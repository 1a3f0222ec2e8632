# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""What an ordinary user of a node may try on proxyd's sockets. Prints what came of it."""
import array, os, random, socket, sys, time

SPANK, SRUN = "/run/singularity-slurm/spank.sock", "/run/singularity-slurm/srun.sock"


def connect(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(path)
    return s


def send(s, data, fds=()):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    try:
        s.sendmsg([data], rights)
        return True
    except OSError:
        return False


def call(argv):
    """The memfd that sing-srun sends: cwd, umask, argc, arguments, environment."""
    fd = os.memfd_create("call")
    os.write(fd, b"\0".join([b"/tmp", b"022", str(len(argv)).encode()] + [a.encode() for a in argv] + [b"PATH=/usr/bin"]) + b"\0")
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def spank():
    try:
        connect(SPANK)
        print("connected")
    except OSError as e:
        print(e.strerror)


def srun(key=""):
    """An srun from where there is no capsule."""
    r, w = os.pipe()
    null = os.open("/dev/null", os.O_RDWR)
    s = connect(SRUN)
    send(s, b"srun\0version=1\0key=" + key.encode() + b"\0", [null, null, null, w, call(["srun", "touch", "/shared/home/alice/escaped"])])
    s.close()
    os.close(w)
    print(os.read(r, 4096).decode().strip() or "end of file")


def garbage():
    rng = random.Random(1)
    null = os.open("/dev/null", os.O_RDWR)
    heads = [b"", b"srun\0", b"srun\0version=1\0", b"signal\0version=1\0key=s0-1\0signal=9\0", b"join\0version=1\0job=1\0step=batch\0uid=0\0gid=0\0", b"end\0version=1\0job=1\0"]
    sent = 0
    for i in range(400):
        s = connect(SRUN)
        sent += send(s, rng.choice(heads) + rng.randbytes(rng.randrange(1, 3000)), [null] * rng.choice([0, 0, 1, 5, 16, 17, 250]))
        s.close()
    for size in (65536, 65537, 100000, 180000):
        s = connect(SRUN)
        sent += send(s, b"srun\0" + b"x" * size)
        s.close()
    print("sent", sent)


def idle(seconds):
    """Every place that one user can take, and not a word."""
    held = []
    s = None
    try:
        for i in range(900):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.setblocking(False)
            s.connect(SRUN)
            held.append(s)
    except OSError:
        pass
    print("holds", len(held), flush=True)
    time.sleep(float(seconds))


{"spank": spank, "srun": srun, "garbage": garbage, "idle": idle}[sys.argv[1]](*sys.argv[2:])
