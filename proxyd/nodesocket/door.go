// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nodesocket

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// DoorArg is the hidden first argument by which a main calls Door.
const DoorArg = "srun-door"

// The door is the process that has srun.sock, where every user of the node can connect and send
// descriptors. To close a descriptor may take for ever: a FUSE file's owner need not answer, an
// NFS server may be dead, and SIGKILL does not end that wait. The same holds for a socket with
// a descriptor in its queue. So the daemon has neither such a descriptor nor such a socket. The
// door has the sockets, and does not receive the descriptors. It starts no process, because execve
// would close the open sockets and hang. If a close hangs, it hangs one thread of the door.
//
//	user                 door                          daemon
//	connect ───────────► accept
//	                     caller, pidfd, its end ─────► in a capsule?      no: closes
//	                                         ◄──────── listen
//	sendmsg ───────────► recvmsg(MSG_PEEK), without room for descriptors
//	                     packet ─────────────────────► a signal: obeys, closes
//	                                         ◄──────── give, with a Caller's socket (package srun)
//	                     the connection ─────────────────────────────────► Caller
//	          closes, in a thread of its own
//
// The socket between door and daemon is SOCK_SEQPACKET; for each caller there is another such
// socket for the conversation about this caller, which ends when the daemon closes its end.

// doorControl is the descriptor that the door inherits: its socket to the daemon.
const doorControl = 3

// callerMessage is the door's message about a new caller; the descriptors are the pidfd and the end
// of the conversation.
type callerMessage struct {
	PID      int
	UID, GID uint32
	Groups   []uint32
}

// packetMessage has the packet that the caller has sent.
type packetMessage struct {
	Packet []byte
	Files  bool // descriptors came with the packet
}

const (
	sayReady  = "ready"
	sayListen = "listen"
	sayGive   = "give"
)

// maxCalls bounds the connections of an ordinary user, so that other users can connect. A
// sing-srun that is turned away asks again. A connection counts until it is closed, however long
// that takes.
const maxCalls = 128

// maxPacket limits the packet of a caller; those of sing-srun have 256 bytes.
const maxPacket = 4 << 10

// calls counts the calls of each user.
type calls struct {
	mu sync.Mutex
	of map[uint32]int
}

func (n *calls) beginCall(uid uint32, most int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if uid != 0 && n.of[uid] >= most {
		return false
	}
	n.of[uid]++
	return true
}

func (n *calls) endCall(uid uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of[uid]--; n.of[uid] == 0 {
		delete(n.of, uid)
	}
}

// door is the state of the door's process.
type door struct {
	control *net.UnixConn
	open    calls
	closer  closer
}

// Door is the life of the door's process: it makes the socket at the path that is its argument, and
// serves that socket until the daemon has ended. A main calls Door when the first argument of the
// program is DoorArg, with the other arguments, and exits with the status that Door returns.
func Door(args []string) int {
	debug.SetGCPercent(50)
	_ = unix.CloseRange(doorControl+1, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	if err := runDoor(args); err != nil {
		fmt.Fprintln(os.Stderr, "srun.sock:", err)
		return 1
	}
	return 0
}

func runDoor(args []string) error {
	if len(args) != 1 {
		return errors.New("want the path of the socket")
	}
	control, err := localsock.TakeConn(doorControl)
	if err != nil {
		return err
	}
	l, err := localsock.Listen(args[0], 0o666)
	if err != nil {
		return err
	}
	if _, err := control.Write([]byte(sayReady)); err != nil {
		return err
	}
	d := &door{control: control, open: calls{of: map[uint32]int{}}}
	// The daemon sees at once that this door has given up, though the process may never end.
	d.closer = closer{limits: usualLimits, giveUp: func() { _ = shutdownConn(control) }}
	go d.acceptCallers(l)
	_, _ = control.Read(make([]byte, 1)) // returns when the daemon ends, or when this door closes the socket itself
	return nil
}

func (d *door) acceptCallers(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			<-time.After(acceptAgain) // accept may fail for lack of descriptors, which may pass
			continue
		}
		who, err := peerOfConn(c)
		if err != nil {
			d.refuseConnection(unknownUser, c)
			continue
		}
		if !d.open.beginCall(who.UID, maxCalls) {
			who.closePidfd()
			d.refuseConnection(who.UID, c)
			continue
		}
		go func() {
			if d.serveCaller(c, who) != nil { // the caller is turned away without a reason
				_ = shutdownConn(c)
			}
			who.closePidfd()
			d.closer.closeConn(who.UID, c, func() { d.open.endCall(who.UID) })
		}()
	}
}

// refuseConnection ends a connection that is not served. The caller sees that at once, however long it takes to close
// it.
func (d *door) refuseConnection(uid uint32, c *net.UnixConn) {
	_ = shutdownConn(c)
	d.closer.closeConn(uid, c, func() {})
}

func shutdownConn(c *net.UnixConn) error {
	return errors.Join(c.CloseRead(), c.CloseWrite())
}

// serveCaller tells the daemon of a caller and passes the caller's packet and connection on.
func (d *door) serveCaller(c *net.UnixConn, who Peer) error {
	talk, err := d.announceCaller(who)
	if err != nil {
		return err
	}
	defer talk.Close()
	b := make([]byte, len(sayListen))
	if _, err := talk.Read(b); err != nil {
		return err // the caller is in no capsule
	}
	packet, files, err := peekPacket(c)
	if err != nil {
		return err
	}
	said, err := json.Marshal(packetMessage{packet, files})
	if err != nil {
		return err
	}
	if _, err := talk.Write(said); err != nil {
		return err
	}
	fds, _, err := receiveFiles(talk, 1)
	if err != nil {
		return err // the daemon does not want the connection
	}
	to := fds[0]
	defer to.Close()
	var sent error
	err = localsock.WithDescriptor(c, func(fd int) {
		sent = localsock.WithDescriptor(to, func(end int) { sent = unix.Sendmsg(end, []byte{0}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL) })
	})
	return errors.Join(err, sent)
}

// announceCaller tells the daemon of a caller, and returns this side's socket of the conversation
// about him.
func (d *door) announceCaller(who Peer) (*net.UnixConn, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	said, err := json.Marshal(callerMessage{who.PID, who.UID, who.GID, who.Groups})
	if err == nil {
		err = localsock.WithDescriptor(who.pidfd, func(pidfd int) {
			_, _, err = d.control.WriteMsgUnix(said, unix.UnixRights(pidfd, ends[1]), nil)
		})
	}
	unix.Close(ends[1])
	if err != nil {
		unix.Close(ends[0])
		return nil, err
	}
	return localsock.TakeConn(ends[0])
}

// peekPacket reads a packet and leaves the packet, with its descriptors, in the socket's queue.
func peekPacket(c *net.UnixConn) (packet []byte, files bool, err error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, false, err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, false, err
	}
	b := make([]byte, maxPacket+1)
	var n, flags int
	var inner error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, _, flags, _, inner = unix.Recvmsg(int(fd), b, nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
			if !errors.Is(inner, unix.EINTR) {
				return !errors.Is(inner, unix.EAGAIN)
			}
		}
	})
	if err = errors.Join(err, inner); err != nil {
		return nil, false, err
	}
	if n == 0 || n > maxPacket || flags&unix.MSG_TRUNC != 0 {
		return nil, false, errMessage
	}
	return b[:n], flags&unix.MSG_CTRUNC != 0, nil
}

// receiveFiles reads a packet with as many descriptors as are wanted.
func receiveFiles(c *net.UnixConn, want int) ([]*os.File, []byte, error) {
	b := make([]byte, maxMessage)
	n, files, err := localsock.Receive(c, b, want)
	if err == nil && len(files) != want {
		localsock.CloseAll(files)
		err = fmt.Errorf("%w: %d bytes, %d descriptors", errMessage, n, len(files))
	}
	if err != nil {
		return nil, nil, err
	}
	return files, b[:n], nil
}
