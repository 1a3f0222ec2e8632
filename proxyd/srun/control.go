// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// The control socket of a runner is SOCK_SEQPACKET, in the srun's folder. A connection is a
// request and its answer:
//
//	quiet | signal NUMBER | drained | output all | output paced ──►
//	                                                         ◄── ok | no REASON
type controlServer struct{ l *net.UnixListener }

const maxRequest = 64

// listenControl makes the socket. Only root reaches the socket: by the folder's mode, by the socket's mode, and because
// each peer's user is checked.
func listenControl(dir string) (*controlServer, error) {
	l, err := localsock.Listen(filepath.Join(dir, controlName), 0o600)
	if err != nil {
		return nil, err
	}
	return &controlServer{l}, nil
}

// serveRequests answers requests, each after the last, for the life of the process.
func (s *controlServer) serveRequests(obey func(string) error) {
	for {
		c, err := s.l.AcceptUnix()
		if err != nil {
			return
		}
		answerRequest(c, obey)
		c.Close()
	}
}

// requestTime bounds how long a connection may hold up the next.
const requestTime = 5 * time.Second

func answerRequest(c *net.UnixConn, obey func(string) error) {
	if !isRoot(c) || c.SetDeadline(time.Now().Add(requestTime)) != nil {
		return
	}
	buf := make([]byte, maxRequest)
	n, err := c.Read(buf)
	if err != nil || n == 0 {
		return
	}
	reply := "ok"
	if err := obey(string(buf[:n])); err != nil {
		reply = "no " + oneLine(err.Error())
	}
	_, _ = c.Write([]byte(reply)) // the asker may be gone
}

func isRoot(c *net.UnixConn) bool {
	cred, err := localsock.PeerCredentials(c)
	return err == nil && cred.Uid == 0
}

// callRunner makes a request of the runner with the folder dir.
func callRunner(ctx context.Context, dir, request string) error {
	c, err := localsock.Dial(filepath.Join(dir, controlName))
	if err != nil {
		return err
	}
	defer c.Close()
	defer localsock.InterruptAtEnd(ctx, c.SetDeadline)()
	buf := make([]byte, 2*maxReason)
	if _, err = c.Write([]byte(request)); err == nil {
		var n int
		n, err = c.Read(buf)
		buf = buf[:n]
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case string(buf) != "ok":
		return errors.New(string(buf))
	}
	return nil
}
