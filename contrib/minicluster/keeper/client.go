// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/state"
)

// ErrNotRunning is the error of every request to a cluster that does not run.
var ErrNotRunning = errors.New("not running")

// Ask asks the cluster at p for its status.
func Ask(p state.Folder) (*Status, error) {
	a, _, err := askKeeper(p, request{Verb: "status"})
	return a.Status, err
}

// Change does verb ("fail", "cut", "heal", "restart") to a host and waits until that is done.
// daemon is for restart only.
func Change(p state.Folder, verb, hostName, daemon string) error {
	_, _, err := askKeeper(p, request{Verb: verb, Host: hostName, Daemon: daemon})
	return err
}

// Pidfd returns a pidfd of the host's first process, which the caller closes.
func Pidfd(p state.Folder, hostName string) (int, error) {
	_, fd, err := askKeeper(p, request{Verb: "pidfd", Host: hostName})
	if err == nil && fd < 0 {
		err = errors.New("no descriptor came for the host (too many open files? see: ulimit -n)")
	}
	return fd, err
}

// Kill ends the cluster at p and returns when its last process has gone. Kill also works on a
// keeper that does not answer, and on a keeper without its socket, which was removed.
func Kill(p state.Folder) error {
	pid, err := keeperPID(p)
	if err != nil {
		return err
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil // just gone
	}
	if err != nil {
		return fmt.Errorf("cluster %s: %w", p.Name, err)
	}
	defer unix.Close(pidfd)
	// The PID may be another process's by now; from here on the pidfd cannot change.
	if !isKeeper(pid, p.Name) {
		return notRunning(p)
	}
	left := findGroups(pid)
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cluster %s: kill: %w", p.Name, err)
	}
	if err := awaitEnd(pidfd); err != nil {
		return err
	}
	removeGroups(left)
	return nil
}

// keeperPID asks the kernel which process listens on the socket, or else reads the lock.
func keeperPID(p state.Folder) (int, error) {
	conn, err := dialKeeper(p)
	if err != nil {
		if pid := p.Keeper(); p.Running() && pid > 0 {
			return pid, nil
		}
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	ctlErr := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(ctlErr, err); err != nil {
		return 0, fmt.Errorf("cluster %s: %w", p.Name, err)
	}
	return int(peer.Pid), nil
}

func isKeeper(pid int, name string) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && string(cmdline) == "minicluster\x00"+Arg+"\x00"+name+"\x00"
}

// awaitEnd waits for the end of a process that is no child of ours. A PID namespace's first
// process ends only after all other processes there.
func awaitEnd(pidfd int) error {
	const tenSeconds = 10_000
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, tenSeconds)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return errors.New("a process of the cluster does not end (is one of its parents, outside, stopped?)")
		}
		return nil
	}
}

func dialKeeper(p state.Folder) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.Control(), Net: "unix"})
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("cluster %s belongs to root", p.Name)
	case err != nil && p.Running():
		return nil, fmt.Errorf("cluster %s is still being raised", p.Name)
	case err != nil:
		return nil, notRunning(p)
	}
	return conn, nil
}

func notRunning(p state.Folder) error {
	others := "none is"
	if names := state.Names(); len(names) > 0 {
		others = "running: " + strings.Join(names, " ")
	}
	return fmt.Errorf("cluster %s is %w (%s)", p.Name, ErrNotRunning, others)
}

// answerWithin bounds a request: the raising of the cluster, if it is not up, and the change
// itself.
const answerWithin = raiseWithin + changeWithin

func askKeeper(p state.Folder, r request) (Answer, int, error) {
	var a Answer
	conn, err := dialKeeper(p)
	if err != nil {
		return a, -1, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return a, -1, err
	}
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return a, -1, fmt.Errorf("cluster %s: %w", p.Name, err)
	}
	fd, err := receiveAnswer(conn, &a)
	switch {
	case err != nil:
		return a, -1, fmt.Errorf("cluster %s: its keeper does not answer: %w", p.Name, err)
	case a.Error != "":
		return a, -1, errors.New(a.Error)
	}
	return a, fd, nil
}

// receiveAnswer reads an answer, which may be longer than a single read, and the descriptor that
// came with the answer, or -1.
func receiveAnswer(conn *net.UnixConn, a *Answer) (fd int, err error) {
	first := make([]byte, 64<<10)
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := conn.ReadMsgUnix(first, oob)
	if err != nil {
		return -1, err
	}
	fd = descriptorIn(oob[:oobn])
	rest := json.NewDecoder(io.MultiReader(bytes.NewReader(first[:n]), conn))
	return fd, rest.Decode(a)
}

func descriptorIn(oob []byte) int {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) == 0 {
		return -1
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) == 0 {
		return -1
	}
	unix.CloseOnExec(fds[0])
	return fds[0]
}
