// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// daemon serves unix sockets from outside of all capsules, as a daemon of the node does.
type daemon struct {
	t   *testing.T
	dir string
	log *net.UnixConn
}

// startDaemon makes the sockets stream, packets and log in a folder that capsules see. A connection to the first two
// gets each packet back; then "late" also makes the daemon send "one" and "two", and "file" an open file.
func startDaemon(t *testing.T) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "daemon-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &daemon{t: t, dir: dir}
	for name, network := range map[string]string{"stream": "unix", "packets": "unixpacket"} {
		l, err := net.ListenUnix(network, &net.UnixAddr{Net: network, Name: filepath.Join(dir, name)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.AcceptUnix()
				if err != nil {
					return
				}
				go serveConnection(c)
			}
		}()
	}
	if d.log, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir, "log")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.log.Close() })
	for path, mode := range map[string]os.FileMode{"": 0o755, "stream": 0o666, "packets": 0o666, "log": 0o666} {
		if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func serveConnection(c *net.UnixConn) {
	defer c.Close()
	b := make([]byte, 100)
	for {
		n, err := c.Read(b)
		if err != nil || n == 0 {
			return
		}
		c.Write(b[:n])
		switch string(b[:n]) {
		case "late":
			c.Write([]byte("one"))
			c.Write([]byte("two"))
		case "file":
			f, err := os.Open("/dev/null")
			if err != nil {
				return
			}
			c.WriteMsgUnix([]byte("one"), unix.UnixRights(int(f.Fd())), nil)
			f.Close()
		}
	}
}

// nextDatagram returns the next datagram.
func (d *daemon) nextDatagram() string {
	d.t.Helper()
	b := make([]byte, 100)
	n, err := d.log.Read(b)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b[:n])
}

// clientProgram is connected to a daemon in all ways. The program prints the numbers of its sockets, and answers "use"
// with the results of using them, and "again" with the results of new connections.
const clientProgram = `
import errno, fcntl, os, select, socket, sys
dir = sys.argv[1]
def connected(kind, name):
    s = socket.socket(socket.AF_UNIX, kind); s.connect(dir + '/' + name); return s
def stream(): return connected(socket.SOCK_STREAM, 'stream')
def packets(): return connected(socket.SOCK_SEQPACKET, 'packets')
def log(): return connected(socket.SOCK_DGRAM, 'log')
def said(f):
    try: return f()
    except OSError as e: return errno.errorcode[e.errno]
def use(s, text=b'x'):
    n = said(lambda: s.send(text))
    return n if n == 'EPIPE' else said(lambda: s.recv(100))
a, b, c = stream(), packets(), log()
shared, half = stream(), stream()
unread, unread2, file = stream(), packets(), stream()
for s, ask, size in (unread, b'late', 6), (unread2, b'late', 3), (file, b'file', 3):
    s.send(ask); assert s.recv(4) == ask
    while len(s.recv(6, socket.MSG_PEEK)) < size: pass
for s in a, b, shared: assert use(s) == b'x'
half.shutdown(socket.SHUT_WR)
copy = os.dup(shared.fileno()); os.set_inheritable(copy, True); a.setblocking(False); a.setblocking(True)
fcntl.fcntl(b.fileno(), fcntl.F_SETFL, os.O_NONBLOCK | os.O_RDWR)
asked, to = os.pipe(); answered, answer = os.pipe()
if os.fork() == 0:
    os.close(to)
    while os.read(asked, 1): os.write(answer, b'%10s' % str(use(shared)).encode())
    os._exit(0)
def child(): os.write(to, b'.'); return os.read(answered, 10).decode().strip()
def events(s):
    p = select.poll(); p.register(s, select.POLLIN | select.POLLRDHUP); return p.poll(0) and p.poll(0)[0][1]
def received():
    text, files, _, _ = socket.recv_fds(file, 100, 1); return text, os.readlink('/proc/self/fd/%d' % files[0])
all = [a, b, c, shared, half, unread, unread2, file]
print(*[os.fstat(s.fileno()).st_ino for s in all], flush=True)
for line in sys.stdin:
    if line == 'use\n': print(events(a), use(a), 'b' if fcntl.fcntl(b.fileno(), fcntl.F_GETFL) & os.O_NONBLOCK else 'B', select.select([b], [], [], 0)[0] != [], said(lambda: c.send(b'logged')), child(), os.get_inheritable(copy), os.fstat(copy).st_ino == os.fstat(shared.fileno()).st_ino, flush=True)
    if line == 'read\n': print([s.recv(100) for s in (unread, unread, half)], [unread2.recv(100) for _ in range(3)], received(), flush=True)
    if line == 'again\n':
        a, b, c = stream(), packets(), log(); print(use(a), use(b), said(lambda: c.send(b'logged')), flush=True)
`

// outsideOf returns the OutsideSockets for the inodes that clientProgram has printed; the third is the datagram socket.
func outsideOf(t *testing.T, inodes string) []OutsideSocket {
	t.Helper()
	var all []OutsideSocket
	for n, word := range strings.Fields(inodes) {
		inode, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, OutsideSocket{Inode: uint32(inode), To: "x", Datagram: n == 2})
	}
	return all
}

// TestOutsideSockets: connections to a daemon outside of the capsule go on after a dump. A restored program finds them
// closed, reads the bytes that had arrived, and can connect again.
func TestOutsideSockets(t *testing.T) {
	needCRIU(t)
	for name, uid := range map[string]uint32{"a user's": user, "root's": 0} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t)
			c := newCapsule(t)
			r := c.runAs(uid, "/usr/bin/python3", "-c", clientProgram, d.dir)
			r.program.Outside = outsideOf(t, r.readLine())
			var dir folder
			var img *Image
			for range 2 { // the second dump finds the state that the first has left
				dir = newImageFolder(t)
				img = dumpProgram(t, r.program, dir)
				r.askAndExpect("use", "[] b'x' b False 6 b'x' True True")
				if got := d.nextDatagram(); got != "logged" {
					t.Errorf("the daemon got %q", got)
				}
			}
			c.endCapsule()
			_, r = restoreImage(t, img, dir)
			r.askAndExpect("use", "8209 EPIPE b True ENOTCONN EPIPE True True")
			r.askAndExpect("read", "[b'onetwo', b'', b''] [b'one', b'two', b''] (b'one', '/dev/null')")
			r.askAndExpect("again", "b'x' b'x' 6")
			if got := d.nextDatagram(); got != "logged" {
				t.Errorf("the daemon got %q", got)
			}
		})
	}
}

// TestOutsideRefused: a connection to outside that the caller does not allow for is named in the error, and so is a
// connection that the other end has not accepted yet, or that the other end has made.
func TestOutsideRefused(t *testing.T) {
	needCRIU(t)
	d := startDaemon(t)
	busy, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(d.dir, "busy")})
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if err := errors.Join(os.Chmod(filepath.Join(d.dir, "busy"), 0o666), os.Mkdir(filepath.Join(d.dir, "open"), 0), os.Chmod(filepath.Join(d.dir, "open"), 0o777)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ kind, then string }{
		"stream": {"STREAM", "s.connect(dir + '/stream')"}, "packets": {"SEQPACKET", "s.connect(dir + '/packets')"}, "log": {"DGRAM", "s.connect(dir + '/log')"},
		"busy":     {"STREAM", "s.connect(dir + '/busy')"},
		"accepted": {"STREAM", "s.bind(dir + '/open/s'); s.listen(); print('listens', flush=True); a, _ = s.accept()"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCapsule(t)
			r := c.runProgram("/usr/bin/python3", "-c", "import socket\ndir = '"+d.dir+"'\ns = socket.socket(socket.AF_UNIX, socket.SOCK_"+test.kind+"); "+test.then+"\nprint('ready', flush=True)\nprint(input() + ' answered', flush=True)")
			if name == "accepted" {
				r.expectLine("listens")
				guest, err := net.Dial("unix", filepath.Join(d.dir, "open/s"))
				if err != nil {
					t.Fatal(err)
				}
				defer guest.Close()
			}
			r.expectLine("ready")
			_, err := Dump(testDeadline(t), r.program, newImageFolder(t))
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(e.Obstacle, "(python3) is connected to a unix socket ") {
				t.Errorf("Dump: error %v, want a connection to a unix socket as the obstacle", err)
			}
			r.askAndExpect("question", "question answered")
		})
	}
}
