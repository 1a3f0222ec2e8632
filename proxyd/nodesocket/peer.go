// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nodesocket

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// Peer is the process that has connected, as the kernel noted it at that moment. A later change of
// the process, for example by execve of a set-user-ID program, does not change its Peer.
type Peer struct {
	PID      int // means this process as long as Alive returns nil
	UID, GID uint32
	Groups   []uint32 // supplementary

	pidfd *os.File
}

// errPeerGone is wrapped by the error of Alive.
var errPeerGone = errors.New("the caller has ended")

// Alive returns nil if the process has not ended. Then its PID was not given to another process,
// and files that were read below /proc/PID before this call were this process's. The Peer must not
// be closed meanwhile.
func (p Peer) Alive() error {
	if p.pidfd == nil {
		return fmt.Errorf("PID %d: %w: no pidfd", p.PID, errPeerGone)
	}
	var polled int
	var inner error
	if err := localsock.WithDescriptor(p.pidfd, func(fd int) {
		for {
			polled, inner = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			if !errors.Is(inner, unix.EINTR) {
				return
			}
		}
	}); err != nil {
		return err
	}
	if inner != nil {
		return inner
	}
	if polled > 0 {
		return fmt.Errorf("PID %d: %w", p.PID, errPeerGone)
	}
	return nil
}

func (p Peer) closePidfd() {
	if p.pidfd != nil {
		p.pidfd.Close()
	}
}

// peerOfConn asks the kernel which process has connected. The caller closes the Peer. Where the kernel has no
// SO_PEERPIDFD, the process must at least have the user that has connected.
func peerOfConn(c *net.UnixConn) (Peer, error) {
	var p Peer
	var inner error
	if err := localsock.WithDescriptor(c, func(fd int) { p, inner = readPeer(fd) }); err != nil {
		return Peer{}, err
	}
	return p, inner
}

func readPeer(fd int) (Peer, error) {
	cred, err := localsock.PeerCredentialsOf(fd)
	if err != nil {
		return Peer{}, err
	}
	if cred.Pid == 0 {
		return Peer{}, errors.New("the caller is not on this node")
	}
	p := Peer{PID: int(cred.Pid), UID: cred.Uid, GID: cred.Gid}
	if p.Groups, err = peerGroups(fd); err != nil {
		return Peer{}, fmt.Errorf("SO_PEERGROUPS: %w", err)
	}
	pidfd, exact, err := localsock.PeerPidfd(fd, p.PID)
	if err == nil && !exact {
		if err = hasUser(p.PID, p.UID); err != nil {
			unix.Close(pidfd)
		}
	}
	if err != nil {
		return Peer{}, fmt.Errorf("PID %d: %w", p.PID, err)
	}
	p.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	return p, nil
}

// hasUser returns nil if a process is of a user.
func hasUser(pid int, uid uint32) error {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d", pid), &st); err != nil {
		return err
	}
	if st.Uid != uid {
		return fmt.Errorf("%w: its PID is a process of uid %d", errPeerGone, st.Uid)
	}
	return nil
}
