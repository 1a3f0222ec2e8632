# A file system with a single file, which never answers when the file is flushed by root, nor when
# it is written to: what any user can mount who may use FUSE. Usage: hanging_fuse.py FOLDER
import ctypes, os, stat, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
fuse = os.open("/dev/fuse", os.O_RDWR)
options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % fuse
if libc.mount(b"hangs", sys.argv[1].encode(), b"fuse", 6, options.encode()):
    sys.exit(os.strerror(ctypes.get_errno()))


def attributes(inode, mode):
    return struct.pack("<QQQQQQIIIIIIIIII", inode, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(call, node, uid):
    if call == 26:  # INIT
        return struct.pack("<IIIIHHIII", 7, 31, 0, 1 << 16, 0, 0, 128 << 10, 1, 0) + bytes(32)
    if call == 1:  # LOOKUP
        return struct.pack("<QQQQII", 2, 0, 1000, 1000, 0, 0) + attributes(2, stat.S_IFREG | 0o666)
    if call in (3, 4):  # GETATTR, SETATTR
        of = attributes(2, stat.S_IFREG | 0o666) if node == 2 else attributes(1, stat.S_IFDIR | 0o755)
        return struct.pack("<QII", 1000, 0, 0) + of
    if call == 14:  # OPEN
        return bytes(16)
    if call == 18 or call == 25 and uid != 0:  # RELEASE, FLUSH
        return b""
    return None


while True:
    request = os.read(fuse, 1 << 20)
    _, call, unique, node, uid = struct.unpack("<IIQQI", request[:28])
    if call == 2 or call == 16 or call == 25 and uid == 0:  # FORGET wants no answer
        continue
    out = answer(call, node, uid)
    error = 0
    if out is None:
        out, error = b"", -38
    os.write(fuse, struct.pack("<IiQ", 16 + len(out), error, unique) + out)
