// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nodesocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// acceptRoot answers the connections of a socket that root alone can reach.
func (s *Server) acceptRoot(ctx context.Context, l *net.UnixListener, answer func(context.Context, *net.UnixConn, Peer)) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.log.Error("cannot accept a connection", "socket", l.Addr(), "error", err)
			select { // accept may fail for lack of descriptors, which may pass
			case <-time.After(acceptAgain):
				continue
			case <-ctx.Done():
				return
			}
		}
		who, err := peerOfConn(c)
		if err != nil {
			s.log.Debug("turned away", "error", err)
			c.Close()
			continue
		}
		all.Go(func() {
			defer func() { c.Close(); who.closePidfd() }()
			answer(ctx, c, who)
		})
	}
}

// acceptAgain is the wait after a failure of accept.
const acceptAgain = 100 * time.Millisecond

// patience is the time that a process that has connected may take to send its request, which is a
// single packet.
const patience = 5 * time.Second

// readRequest reads the only request of a connection of root's. Descriptors that come with the
// request are not received.
func (s *Server) readRequest(c *net.UnixConn) (message, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return message{}, err
	}
	b := make([]byte, maxMessage+1)
	n, _, flags, _, err := c.ReadMsgUnix(b, nil)
	if err != nil {
		return message{}, err
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return message{}, fmt.Errorf("%w: too long, or with descriptors", errMessage)
	}
	return s.decodePacket(b[:n])
}

// decodePacket decodes a packet of this version.
func (s *Server) decodePacket(packet []byte) (message, error) {
	m, err := decodeMessage(packet)
	if err == nil && m.vals["version"] != version {
		err = fmt.Errorf("%w %q is spoken to proxyd %s, which speaks version %s: install the same release on all nodes", errVersion, m.vals["version"], s.version, version)
	}
	if err != nil {
		return message{}, err
	}
	return m, nil
}

// sendAnswer answers. A peer that has ended meanwhile is no error.
func (s *Server) sendAnswer(c *net.UnixConn, m message, files ...*os.File) {
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return
	}
	if err := localsock.Send(c, m.encode(), localsock.Descriptors(files)...); err != nil {
		s.log.Debug("answer not taken", "verb", m.verb, "error", err)
	}
}

func (s *Server) sendRefusal(c *net.UnixConn, err error) {
	if errors.Is(err, errVersion) {
		// By the errno the plugin tells a wrong version from a refusal that is about the job.
		s.sendAnswer(c, newMessage(verbNo, "reason", err.Error(), "errno", strconv.Itoa(int(unix.EPROTONOSUPPORT))))
		return
	}
	s.sendAnswer(c, newMessage(verbNo, "reason", err.Error()))
}
