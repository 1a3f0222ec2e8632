// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

// kinds are programs in python. check sends each the same question before a dump, after a dump, and in the restored
// program; the answer is always the same.
var kinds = map[string]string{
	"threads": `
import threading
n = [0] * 8; gate = threading.Barrier(9)
def work(i):
    local = threading.local(); local.n = 0
    while True:
        gate.wait(); local.n += 1; n[i] = local.n; gate.wait()
for i in range(8): threading.Thread(target=work, args=(i,), daemon=True).start()
def check():
    before = list(n); gate.wait(); gate.wait()
    return [b - a for a, b in zip(before, n)], threading.active_count()`,

	"timer": `
import signal, time
fired = [0]
def tick(s, f): fired[0] += 1
signal.signal(signal.SIGALRM, tick); signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
def check():
    before = fired[0]
    while fired[0] < before + 3: signal.pause()
    return 'ticks', signal.getitimer(signal.ITIMER_REAL)[1]`,

	"timer slack": `
import ctypes, os, threading
libc = ctypes.CDLL(None); libc.prctl(29, 123456, 0, 0, 0); asked, told, said = threading.Semaphore(0), threading.Semaphore(0), []
def work():
    libc.prctl(29, 777, 0, 0, 0)
    while True: asked.acquire(); said.append(libc.prctl(30, 0, 0, 0, 0)); told.release()
threading.Thread(target=work, daemon=True).start()
r, w = os.pipe(); r2, w2 = os.pipe()
if os.fork() == 0:
    libc.prctl(29, 50000, 0, 0, 0)
    while os.read(r, 1): os.write(w2, b'%9d' % libc.prctl(30, 0, 0, 0, 0))
    os._exit(0)
def check():
    asked.release(); told.acquire(); os.write(w, b'.')
    return libc.prctl(30, 0, 0, 0, 0), said.pop(), int(os.read(r2, 9))`,

	"io priority": `
import ctypes, os, platform, threading
libc = ctypes.CDLL(None); put, get = (251, 252) if platform.machine() == 'x86_64' else (30, 31)
assert libc.syscall(put, 1, 0, 2 << 13 | 7) == 0; asked, told, said = threading.Semaphore(0), threading.Semaphore(0), []
def work():
    assert libc.syscall(put, 1, 0, 3 << 13) == 0
    while True: asked.acquire(); said.append(libc.syscall(get, 1, 0)); told.release()
threading.Thread(target=work, daemon=True).start()
def check():
    asked.release(); told.acquire()
    return libc.syscall(get, 1, 0), said.pop()`,

	"personality": `
import ctypes, os
libc = ctypes.CDLL(None); a, b = (os.pipe(), os.pipe()), (os.pipe(), os.pipe())
def serve(p):
    while os.read(p[0][0], 1): os.write(p[1][1], b'%9x' % libc.personality(0xffffffff))
if os.fork() == 0:
    libc.personality(0x0040000) # ADDR_NO_RANDOMIZE
    if os.fork() == 0: libc.personality(0); serve(b)
    serve(a)
def ask(p): os.write(p[0][1], b'.'); return int(os.read(p[1][0], 9), 16)
def check(): return ask(a), ask(b), libc.personality(0xffffffff)`,

	"sleep": `
import threading, time
begin = time.monotonic(); done = threading.Event()
def work(): time.sleep(0.6); done.set()
threading.Thread(target=work, daemon=True).start()
def check():
    return done.wait(20), time.monotonic() - begin < 60`,

	"pending signal": `
import signal, os
got = []
signal.signal(signal.SIGUSR1, lambda s, f: got.append(s)); signal.signal(signal.SIGRTMIN, lambda s, f: got.append(s))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGRTMIN])
os.kill(os.getpid(), signal.SIGUSR1); os.kill(os.getpid(), signal.SIGRTMIN); os.kill(os.getpid(), signal.SIGRTMIN)
def check():
    p = sorted(int(s) for s in signal.sigpending())
    if not os.path.exists('/nonexistent'): return p`,

	"filter of its own": `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def filter(call, errno):
    # load the number; if it is not that call's, go to the last; return errno; allow
    code = (ctypes.c_uint64 * 4)(0x20, 0x15 | 1 << 24 | call << 32, 6 | (0x50000 | errno) << 32, 6 | 0x7fff0000 << 32)
    class Prog(ctypes.Structure): _fields_ = [('n', ctypes.c_ushort), ('code', ctypes.c_void_p)]
    p = Prog(4, ctypes.addressof(code))
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(p)) == 0
filter({'x86_64': 109, 'aarch64': 154}[__import__('platform').machine()], 77) # setpgid
def check():
    return libc.setpgid(0, 0), ctypes.get_errno()`,

	"not dumpable": `
import ctypes, os
libc = ctypes.CDLL(None); assert libc.prctl(4, 0, 0, 0, 0) == 0
r, w = os.pipe(); a = bytearray(b'x' * 100000)
def check():
    os.write(w, b'through'); return os.read(r, 10), a.count(b'x'), libc.prctl(3, 0, 0, 0, 0)`,

	"removed file": `
import os
f = open('/tmp/gone', 'w+b'); f.write(b'x' * 3000000 + b'end'); f.flush(); os.unlink('/tmp/gone')
def check():
    f.seek(-4, 2); return f.read(), os.fstat(f.fileno()).st_nlink, os.path.exists('/tmp/gone')`,

	"locks": `
import fcntl, os
f = open(WORK + '/locked', 'w+'); fcntl.flock(f, fcntl.LOCK_EX); g = open(WORK + '/posix', 'w+'); fcntl.lockf(g, fcntl.LOCK_EX, 10, 5)
def check():
    r = []
    for name in 'locked', 'posix':
        pid = os.fork()
        if pid == 0:
            try:
                h = open(WORK + '/' + name, 'r+')
                fcntl.flock(h, fcntl.LOCK_EX | fcntl.LOCK_NB) if name == 'locked' else fcntl.lockf(h, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 7)
            except BlockingIOError: os._exit(7)
            os._exit(0)
        r.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return r`,

	"unix sockets": `
import os, socket, array
a, b = socket.socketpair(); l = socket.socket(socket.AF_UNIX); l.bind('\0listener'); l.listen()
c = socket.socket(socket.AF_UNIX); c.connect('\0listener'); d = l.accept()[0]; c.send(b'left')
s, t = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.send(b'one'); s.send(b'two')
x, y = os.pipe(); socket.send_fds(a, [b'fd'], [x]); os.write(y, b'through')
def check():
    m, fds, _, _ = socket.recv_fds(b, 10, 1); got = os.read(fds[0], 10)
    r = m, got, d.recv(10), t.recv(10), t.recv(10)
    socket.send_fds(a, [b'fd'], [x]); os.write(y, b'through'); c.send(b'left'); s.send(b'one'); s.send(b'two')
    e = socket.socket(socket.AF_UNIX); e.connect('\0listener'); l.accept()
    return r`,

	"place of a socket": `
import os, socket, stat
def pair(name, go_on):
    l = socket.socket(socket.AF_UNIX); l.bind(name); os.chmod(name, 0o741); l.listen()
    c = socket.socket(socket.AF_UNIX); c.connect(name); d = l.accept()[0]
    return c, d, l if go_on else l.close()
all = [pair(WORK + '/closed', False), pair(WORK + '/listens', True)]
def check():
    r = []
    for name, (c, d, l) in zip(('closed', 'listens'), all):
        d.send(name.encode()); r += [c.recv(10), oct(os.stat(WORK + '/' + name).st_mode)]
    e = socket.socket(socket.AF_UNIX); e.connect(WORK + '/listens'); all[1][2].accept()
    return r`,

	"shared memory": `
import mmap, os, multiprocessing.shared_memory as sm
a = mmap.mmap(-1, 1 << 20); m = os.memfd_create('m'); os.ftruncate(m, 8192); b = mmap.mmap(m, 8192)
p = open(WORK + '/mapped', 'w+b'); p.truncate(4096); c = mmap.mmap(p.fileno(), 4096)
r, w = os.pipe(); r2, w2 = os.pipe()
if os.fork() == 0:
    while True:
        if not os.read(r, 1): os._exit(0)
        for x in a, b, c: x[100] = (x[100] + 1) % 256
        os.write(w2, b'.')
def check():
    for x in a, b, c: x[100] = 5
    os.write(w, b'.'); os.read(r2, 1)
    return [x[100] for x in (a, b, c)]`,

	"reserved addresses": `
import ctypes, mmap
libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p; libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
big = libc.mmap(None, 8 << 40, 0, 0x22, -1, 0); assert big not in (None, 2**64 - 1) # more than any node has
used = big + (1 << 40); assert libc.mprotect(used, 1 << 20, 3) == 0; ctypes.memset(used, 7, 1 << 20)
hidden = used + (1 << 30); assert libc.mprotect(hidden, 4096, 3) == 0; ctypes.memset(hidden, 9, 4096); assert libc.mprotect(hidden, 4096, 0) == 0
def check():
    assert libc.mprotect(hidden, 4096, 1) == 0; was = ctypes.string_at(hidden, 4096) == b'\x09' * 4096; assert libc.mprotect(hidden, 4096, 0) == 0
    more = big + (2 << 40); ok = libc.mprotect(more, 1 << 20, 3) == 0 and libc.mprotect(more, 1 << 20, 0) == 0
    return was, ok, ctypes.string_at(used, 1 << 20) == b'\x07' * (1 << 20)`,

	"tcp": `
import socket, threading
l = socket.create_server(('127.0.0.1', 7000)); c = socket.create_connection(('127.0.0.1', 7000)); s = l.accept()[0]
c6 = socket.socket(socket.AF_INET6); u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 7000))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); big = bytes(range(256)) * 300; c.send(big)
def check():
    got = b''
    while len(got) < len(big): got += s.recv(1 << 16)
    s.send(b'back'); back = c.recv(10); c.send(big); u.sendto(b'u', ('127.0.0.1', 7000))
    return got == big, back, u.recv(10), s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), len(threading.enumerate())`,

	"kernel objects": `
import os, select, ctypes
libc = ctypes.CDLL(None)
e = os.eventfd(5); t = os.timerfd_create(1); os.timerfd_settime(t, initial=0.01, interval=0); ep = select.epoll(); ep.register(e, select.EPOLLIN); ep.register(t, select.EPOLLIN)
i = libc.inotify_init(); assert libc.inotify_add_watch(i, WORK.encode(), 0x100) == 1
select.select([t], [], []) # fired, not read
def check():
    n = sorted(f for f, _ in ep.poll()); ok = n == sorted([e, t])
    open(WORK + '/new', 'w').close(); ev = os.read(i, 4096)[16:19]; os.unlink(WORK + '/new')
    v = os.eventfd_read(e); os.eventfd_write(e, v)
    return ok, ev, v`,

	"eventfds that count as semaphores": `
import os, select
e = os.eventfd(3, os.EFD_SEMAPHORE | os.EFD_NONBLOCK); plain = os.eventfd(7); twin = os.dup(e); empty = os.eventfd(0, os.EFD_SEMAPHORE)
ep = select.epoll(); ep.register(e, select.EPOLLIN)
if os.fork() == 0:
    while True: os.eventfd_read(empty); os.eventfd_write(e, 2)
def check():
    got = [os.eventfd_read(f) for f in (e, twin, e)]; none = ep.poll(0)
    try: os.eventfd_read(e)
    except BlockingIOError: got.append('none')
    os.eventfd_write(empty, 1); there = ep.poll(); os.eventfd_write(e, 1)
    v = os.eventfd_read(plain); os.eventfd_write(plain, v)
    return got, none, there == [(e, select.EPOLLIN)], v`,

	"periodic timer that was not read": `
import os, select
t = os.timerfd_create(1); os.timerfd_settime(t, initial=0.1, interval=0.1)
def check():
    select.select([t], [], []); os.read(t, 8)
    again = select.select([t], [], [], 20)[0] == [t] # and is not read
    return again`,

	"family": `
import os, signal, subprocess, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (500, 600)); os.nice(5); os.umask(0o027); os.chdir(WORK); os.environ['MARK'] = 'kept'
z = os.fork()
if z == 0: os._exit(9) # a zombie
stopped = os.fork()
if stopped == 0:
    os.kill(os.getpid(), signal.SIGSTOP); os._exit(3)
os.waitid(os.P_PID, stopped, os.WSTOPPED | os.WNOWAIT); os.waitid(os.P_PID, z, os.WEXITED | os.WNOWAIT)
session = subprocess.Popen(['sleep', '1000'], start_new_session=True)
def state(p): return open(f'/proc/{p}/stat').read().split()[2]
def check():
    while state(stopped) == 'R': pass # the signal is there, and is taken when the process is next scheduled
    states = [state(p) for p in (z, stopped)]
    return states, resource.getrlimit(resource.RLIMIT_NOFILE), os.nice(0), os.umask(0o027), os.getcwd() == WORK, os.environ['MARK'], os.getsid(session.pid) == session.pid, os.getgroups(), os.getresuid(), session.poll()`,

	"terminal of its own": `
import os, pty, termios
m, s = pty.openpty()
def line():
    got = b''
    while not got.endswith(b'\n'): got += os.read(m, 100)
    return got
def check():
    os.write(s, b'out\n'); out = line(); os.write(m, b'in\n')
    return out, os.read(s, 100), line(), os.isatty(s)`,

	"session in a terminal": `
import os, pty
pid, m = pty.fork()
if pid == 0:
    while True: print(input()[::-1], os.tcgetpgrp(0) == os.getpgrp())
def check():
    os.write(m, b'abc\n'); got = b''
    while got.count(b'\n') < 2: got += os.read(m, 100)
    return got, os.tcgetpgrp(m) == pid`,

	// Like an interactive dash below expect; the child shares the open file.
	"terminal of the session": `
import os, pty, signal
pid, m = pty.fork()
if pid == 0:
    t = os.open('/dev/tty', os.O_RDWR)
    if os.fork() == 0:
        while True: signal.pause()
    while True:
        said = input()[::-1]; os.tcsetpgrp(t, os.getpgrp())
        os.write(t, b'%s %x %d\n' % (said.encode(), os.fstat(t).st_rdev, os.tcgetpgrp(t) == os.getpgrp()))
def check():
    os.write(m, b'abc\n'); got = b''
    while got.count(b'\n') < 2: got += os.read(m, 100)
    return got, os.tcgetpgrp(m) == pid`,

	// Like bash within bash below tmux: the inner one has the terminal because its parent has the terminal.
	"shell within a shell": `
import os, pty, signal, subprocess
pid, m = pty.fork()
if pid == 0:
    if os.fork() == 0:
        signal.signal(signal.SIGTTOU, signal.SIG_IGN); os.setpgid(0, 0); os.tcsetpgrp(0, os.getpid())
        while True:
            said = input()[::-1]; t = os.open('/dev/tty', os.O_RDWR); os.tcsetpgrp(t, os.getpgrp())
            told = subprocess.run(['sh', '-c', 'echo told >/dev/tty']).returncode
            os.write(t, b'%s %d %d\n' % (said.encode(), os.tcgetpgrp(t) == os.getpgrp(), told)); os.close(t)
    while True: signal.pause()
def check():
    os.write(m, b'abc\n'); got = b''
    while got.count(b'\n') < 3: got += os.read(m, 100)
    return got, os.tcgetpgrp(m)`,

	// Like less and ssh in such a shell, in two windows; the settings of the terminals differ. Each has a child that
	// outlived its parent.
	"terminals of sessions, opened later": `
import ctypes, fcntl, os, pty, signal, struct, termios
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); ends = []
def serve(t):
    while True:
        said = os.read(t, 100); s = os.open('/dev/tty', os.O_RDWR); os.write(s, b'(%s)' % said); os.close(s)
for rows in 24, 50:
    pid, m = pty.fork()
    if pid == 0:
        if os.fork() == 0:
            if os.fork() == 0: serve(os.open('/dev/tty', os.O_RDWR))
            os._exit(0)
        while True: signal.pause()
    fcntl.ioctl(m, termios.TIOCSWINSZ, struct.pack('4H', rows, 80, 0, 0)); a = termios.tcgetattr(m); a[3] &= ~(termios.ECHO | termios.ICANON); a[6][termios.VEOL] = bytes([rows])
    termios.tcsetattr(m, termios.TCSANOW, a); ends.append(m)
def check():
    all = []
    for m in ends:
        os.write(m, b'abc'); got = b''
        while got.count(b')') < 1: got += os.read(m, 100)
        all.append((got, fcntl.ioctl(m, termios.TIOCGWINSZ, bytes(8)), termios.tcgetattr(m)[3], termios.tcgetattr(m)[6][termios.VEOL], os.tcgetpgrp(m)))
    return all`,

	// The terminal processed the bytes that it holds in both directions at the write: no second echo or carriage return.
	"terminal with typed lines and output": `
import fcntl, os, pty, struct, termios
m, s = pty.openpty()
def wait(fd, n):
    while struct.unpack('i', fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0] < n: pass
def fill():
    os.write(m, b'one\ntwo\n'); wait(m, 10); os.write(s, b'out\n'); wait(m, 15)
def read_to(fd, end):
    got = b''
    while not got.endswith(end): got += os.read(fd, 1)
    return got
def check():
    os.write(s, b'#'); shown = read_to(m, b'#'); a = termios.tcgetattr(s); a[3] &= ~termios.ECHO; termios.tcsetattr(s, termios.TCSANOW, a)
    os.write(m, b'end\n'); typed = read_to(s, b'end\n'); a[3] |= termios.ECHO; termios.tcsetattr(s, termios.TCSANOW, a)
    fill(); return shown, typed, a
fill()`,

	// The reader is so slow that the terminal takes no more output.
	"terminal that is full": `
import os, pty, time
m, s = pty.openpty()
def until_refused(fd, f, arg):
    waits = 0; os.set_blocking(fd, False)
    while waits < 10:
        try: yield f(fd, arg); waits = 0
        except BlockingIOError: waits += 1; time.sleep(0.01)
    os.set_blocking(fd, True)
def fill():
    for n in until_refused(s, os.write, b'\n' * 8192): pass
def check():
    got = b''.join(until_refused(m, os.read, 65536)); fill()
    return len(got) > 12000, set(got.split(b'\r\n'))
fill()`,

	// More bytes wait than the kernel processes at once.
	"terminal with many typed lines": `
import fcntl, os, pty, struct, termios, time
m, s = pty.openpty()
def echo(on):
    a = termios.tcgetattr(s); a[3] = a[3] | termios.ECHO if on else a[3] & ~termios.ECHO; termios.tcsetattr(s, termios.TCSANOW, a)
def fill():
    echo(False); os.write(m, (b'x' * 79 + b'\n') * 50)
    while struct.unpack('i', fcntl.ioctl(s, termios.FIONREAD, bytes(4)))[0] < 4000: time.sleep(0.001)
    echo(True)
def read_to(fd, end):
    got = b''
    while not got.endswith(end): got += os.read(fd, 1)
    return got
def check():
    os.write(s, b'#'); shown = read_to(m, b'#'); echo(False)
    os.write(m, b'end\n'); typed = read_to(s, b'end\n'); echo(True)
    fill(); return shown, typed
fill()`,

	// A shell waits for a job in the foreground that has just ended.
	"foreground that has ended": `
import os, pty, signal
r, w = os.pipe(); r2, w2 = os.pipe(); pid, m = pty.fork()
if pid == 0:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    while True:
        job = os.fork()
        if job == 0: os.setpgid(0, 0); os.tcsetpgrp(0, os.getpid()); os._exit(0)
        os.waitpid(job, 0); os.write(w2, b'.'); os.read(r, 1)
        os.tcsetpgrp(0, os.getpgrp()); os.write(w2, b'%d' % (os.tcgetpgrp(0) == os.getpid()))
os.read(r2, 1)
def check():
    os.write(w, b'.'); return os.read(r2, 1), os.read(r2, 1)`,

	// A process that has given up the terminal of its session.
	"terminal given up": `
import os, pty, signal, termios, fcntl
pid, m = pty.fork()
if pid == 0:
    if os.fork() == 0:
        fcntl.ioctl(0, termios.TIOCNOTTY)
        while True:
            said = input()
            try: os.open('/dev/tty', os.O_RDWR); print('it has one', said)
            except OSError as e: print(e.errno, said)
    while True: signal.pause()
def check():
    os.write(m, b'abc\n'); got = b''
    while got.count(b'\n') < 2: got += os.read(m, 100)
    return got`,

	// Its first executable mapping is like the shim's foothold: the kernel lets no process write to the second.
	"shared code": `
import ctypes
libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p; libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
assert libc.mmap(0x3f0000, 4096, 5, 0x100022, -1, 0) == 0x3f0000 and libc.mmap(0x10000000, 8192, 3, 0x100021, -1, 0) == 0x10000000
ctypes.memset(0x10000000, 0xc3, 4096); assert libc.mprotect(0x10000000, 4096, 5) == 0
def check():
    ctypes.CFUNCTYPE(None)(0x10000000)()
    return ctypes.string_at(0x10000000, 4096) == b'\xc3' * 4096, ctypes.string_at(0x3f0000, 4096) == bytes(4096)`,

	"system v": `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True); libc.shmat.restype = ctypes.c_void_p; libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
def good(n):
    if n < 0: raise OSError(ctypes.get_errno())
    return n
shm = good(libc.shmget(0, 100000, 0o1600)); at = libc.shmat(shm, None, 0); mem = (ctypes.c_char * 100000).from_address(at); mem[99999] = b'm'
sem = good(libc.semget(4711, 3, 0o1600)); good(libc.semctl(sem, 1, 16, 5))
msg = good(libc.msgget(4712, 0o1600)); good(libc.msgsnd(msg, (1).to_bytes(8, 'little') + b'letter', 6, 0))
r, w = os.pipe(); r2, w2 = os.pipe()
if os.fork() == 0:
    while os.read(r, 1): mem[5] = b'c'; os.write(w2, b'.')
    os._exit(0)
def check():
    mem[5] = b'p'; os.write(w, b'.'); os.read(r2, 1)
    b = ctypes.create_string_buffer(100); n = good(libc.msgrcv(msg, b, 90, 0, 0)); good(libc.msgsnd(msg, b, n, 0))
    return mem[5], mem[99999], good(libc.semctl(good(libc.semget(4711, 3, 0)), 1, 12)), b.raw[8:8 + n], shm, sem, msg`,

	"rights": `
import os
def check():
    links = sorted((int(f), os.path.exists('/proc/self/fd/' + f)) for f in os.listdir('/proc/self/fd'))
    return [l.split() for l in open('/proc/self/status') if l.startswith(('Cap', 'NoNewPrivs', 'Groups', 'Uid', 'Gid'))], links`,

	"system v and a socket": `
import ctypes, os, socket
libc = ctypes.CDLL(None); assert libc.shmget(0, 4096, 0o1600) >= 0
f = open('/tmp/gone', 'w+b'); f.write(b'x'); f.flush(); os.unlink('/tmp/gone')
g = open(WORK + '/gone', 'w+b'); g.write(b'y'); g.flush(); os.unlink(WORK + '/gone')
l = socket.socket(socket.AF_UNIX); l.bind('/dev/shm/socket'); l.listen()
def check(): f.seek(0); g.seek(0); return f.read(), g.read(), l.getsockname(), os.listdir(WORK)`,

	"numpy of sorts": `
import array, hashlib, random
random.seed(7); data = array.array('d', (random.random() for _ in range(300000)))
def check():
    return hashlib.sha256(data.tobytes()).hexdigest(), random.getstate()[1][:3]`,
}
