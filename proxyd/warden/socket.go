// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package warden

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// listen makes a socket in the place of a predecessor's. Before it has its mode nobody but
// root can connect: that takes the right to write.
func listen(path string, mode os.FileMode) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // a successor's may be there already
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// maxCalls bounds the connections of one ordinary user, who must not keep out others. Who
// is turned away asks again.
const maxCalls = 128

// calls counts them.
type calls struct {
	mu sync.Mutex
	of map[uint32]int
}

func (n *calls) begin(uid uint32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if uid != 0 && n.of[uid] == maxCalls {
		return false
	}
	n.of[uid]++
	return true
}

func (n *calls) end(uid uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of[uid]--; n.of[uid] == 0 {
		delete(n.of, uid)
	}
}

func (s *Server) accept(ctx context.Context, l *net.UnixListener, answer func(context.Context, *net.UnixConn, Peer)) {
	var all sync.WaitGroup
	defer all.Wait()
	open := calls{of: map[uint32]int{}}
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.log.Error("accept", "socket", l.Addr(), "error", err)
			select { // out of descriptors, say: it may pass
			case <-time.After(100 * time.Millisecond):
				continue
			case <-ctx.Done():
				return
			}
		}
		who, err := peer(c)
		if err != nil || !open.begin(who.UID) {
			s.log.Debug("turned away", "uid", who.UID, "pid", who.PID, "error", err)
			c.Close()
			continue
		}
		all.Go(func() {
			defer func() { c.Close(); open.end(who.UID) }()
			answer(ctx, c, who)
		})
	}
}

// patience is how long one who has connected may take to say what it wants. It is one
// packet, sent at once.
const patience = 5 * time.Second

// hear reads the one request of a connection.
func (s *Server) hear(c *net.UnixConn) (message, []*os.File, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return message{}, nil, err
	}
	b := make([]byte, maxMessage+1)
	oob := make([]byte, unix.CmsgSpace(16*4))
	n, oobn, flags, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return message{}, nil, err
	}
	files, err := descriptors(oob[:oobn])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = fmt.Errorf("%w: too long", errMessage)
	}
	var m message
	if err == nil {
		m, err = decode(b[:n])
	}
	if err == nil && m.vals["version"] != version {
		err = fmt.Errorf("%w %q is spoken to proxyd %s, which speaks version %s: install the same release on all nodes", errVersion, m.vals["version"], s.version, version)
	}
	if err != nil {
		closeAll(files)
		return message{}, nil, err
	}
	return m, files, nil
}

func descriptors(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	parts, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, p := range parts {
		fds, err := unix.ParseUnixRights(&p)
		if err != nil {
			continue // credentials, say
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// say answers. Who does not listen any more has its reasons.
func (s *Server) say(c *net.UnixConn, m message, files ...*os.File) {
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		oob = unix.UnixRights(fds...)
	}
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return
	}
	if _, _, err := c.WriteMsgUnix(m.encode(), oob, nil); err != nil {
		s.log.Debug("answer not taken", "verb", m.verb, "error", err)
	}
}

func (s *Server) refuse(c *net.UnixConn, err error) {
	if errors.Is(err, errVersion) {
		// By which the plugin tells it from a refusal that is about the job.
		s.say(c, newMessage(verbNo, "reason", err.Error(), "errno", strconv.Itoa(int(unix.EPROTONOSUPPORT))))
		return
	}
	s.say(c, newMessage(verbNo, "reason", err.Error()))
}

func peer(c *net.UnixConn) (Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var got error
	if err := raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return Peer{}, err
	}
	if got != nil {
		return Peer{}, got
	}
	if cred.Pid == 0 {
		return Peer{}, errors.New("the caller is not on this node")
	}
	return Peer{int(cred.Pid), cred.Uid, cred.Gid}, nil
}
