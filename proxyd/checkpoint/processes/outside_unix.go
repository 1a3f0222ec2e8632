// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// unixSocket is the kernel's description of a connected unix socket of a network namespace.
type unixSocket struct {
	inode, peer uint32
	datagram    bool
	connected   bool
	hasFile     bool   // bound to a name in the file system, or accepted by a socket that is
	name        string // of the socket itself
}

// unixConnection is a descriptor of a process for a connected unix socket.
type unixConnection struct {
	socket  unixSocket
	program string
	pid, fd int
}

// FindOutsideUnix returns the descriptors of programs for unix sockets that are connected to processes outside of the
// job: daemons of the node. init is the init of the capsule. inJob are the processes of the job on this node; a
// connection between these is not outside, nor is a connection to Slurm's or to our own processes.
//
// The other end must be in a process now. A connection that is not accepted yet, or of which the other end was sent to
// a process that has not received it yet, is in no process, and remains an obstacle.
func FindOutsideUnix(ctx context.Context, init int, programs []capsule.Program, inJob []int) ([]OutsideSocket, error) {
	sockets, err := unixSockets(fmt.Sprintf("/proc/%d/ns/net", init), func(unixSocket) bool { return true })
	if err != nil {
		return nil, err
	}
	connections, err := unixConnections(ctx, programs, sockets)
	if err != nil || len(connections) == 0 {
		return nil, err
	}
	skip := map[int]bool{}
	for _, pid := range inJob {
		skip[pid] = true
		err := visitDescriptors(ctx, pid, func(d procfs.Descriptor) bool {
			if link, err := d.Link(); err == nil {
				delete(connections, link)
			}
			return len(connections) > 0
		})
		if ctx.Err() != nil {
			return nil, err
		}
	}
	holders, err := findHolders(ctx, connections, skip)
	if err != nil {
		return nil, err
	}
	names, err := peerNames(connections, sockets)
	if err != nil {
		return nil, err
	}
	var found []OutsideSocket
	for peer, all := range connections {
		if holder := holders[peer]; holder == 0 || isInfrastructure(holder) {
			continue
		}
		for _, c := range all {
			found = append(found, OutsideSocket{
				Link: socketLink(c.socket.inode), To: names[c.socket.peer], Inode: c.socket.inode, Datagram: c.socket.datagram,
				program: c.program, pid: c.pid, fd: c.fd,
			})
		}
	}
	return found, nil
}

func socketLink(inode uint32) string { return fmt.Sprintf("socket:[%d]", inode) }

// unixConnections returns the connections of programs, keyed by the links of their other ends. A datagram socket that
// is connected to a socket of the capsule is not among them.
func unixConnections(ctx context.Context, programs []capsule.Program, sockets map[string]unixSocket) (map[string][]unixConnection, error) {
	n := 0
	found := map[string][]unixConnection{}
	for _, p := range programs {
		if p.Ended || p.Waiting {
			continue
		}
		for _, pid := range InCgroup(p.Cgroup) {
			err := visitDescriptors(ctx, pid, func(d procfs.Descriptor) bool {
				link, err := d.Link()
				s, ok := sockets[link]
				if err != nil || !ok || s.peer == 0 {
					return true
				}
				peer := socketLink(s.peer)
				if _, inside := sockets[peer]; inside && s.datagram {
					return true
				}
				found[peer] = append(found[peer], unixConnection{s, p.Name, pid, d.Number})
				n++
				return n <= maxOutside
			})
			if ctx.Err() != nil {
				return nil, err
			}
			if n > maxOutside {
				return nil, errManyOutside
			}
		}
	}
	return found, nil
}

// findHolders returns a process of the node for each other end, by its link. The processes in skip are left out. Processes that
// have run for long, as daemons have, are looked at first: other jobs of the node may have any number of descriptors.
func findHolders(ctx context.Context, connections map[string][]unixConnection, skip map[int]bool) (map[string]int, error) {
	holders := map[string]int{}
	if len(connections) == 0 {
		return holders, nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && !skip[pid] {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	for _, pid := range pids {
		if len(holders) == len(connections) {
			break
		}
		if err := noteHolder(ctx, holders, connections, pid); err != nil {
			return nil, err
		}
	}
	return holders, nil
}

// noteHolder enters a process in holders for the other ends that it has. Descriptors beyond procfs.MaxDescriptors are
// not read: the other end then seems to be in no process, and the connection remains an obstacle. The error is that of
// ctx.
func noteHolder(ctx context.Context, holders map[string]int, connections map[string][]unixConnection, pid int) error {
	_ = visitDescriptors(ctx, pid, func(d procfs.Descriptor) bool {
		if link, err := d.Link(); err == nil && connections[link] != nil && holders[link] == 0 {
			holders[link] = pid
		}
		return true
	})
	return ctx.Err()
}

// isInfrastructure tells whether a process is Slurm's or our own, and serves jobs. A request of a program to these
// processes must not be lost: a checkpoint is refused until the answer is there.
func isInfrastructure(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return true // the process has ended
	}
	own, err := os.Executable()
	exe = strings.TrimSuffix(exe, " (deleted)")
	return err != nil || exe == own || filepath.Base(exe) == "slurmstepd"
}

// peerNames returns the names of the other ends, by their inodes. The other end of a datagram socket is in this
// process's network namespace.
func peerNames(connections map[string][]unixConnection, sockets map[string]unixSocket) (map[uint32]string, error) {
	names := map[uint32]string{}
	var node map[string]unixSocket
	for peer, all := range connections {
		s, ok := sockets[peer]
		if !ok && node == nil {
			var err error
			wanted := func(s unixSocket) bool { return connections[socketLink(s.inode)] != nil }
			if node, err = unixSockets("/proc/thread-self/ns/net", wanted); err != nil {
				return nil, err
			}
		}
		if !ok {
			s = node[peer]
		}
		names[all[0].socket.peer] = showName(s.name)
	}
	return names, nil
}

// showName is the name of a unix socket, for people. A name may have any bytes; an abstract name begins with NUL.
func showName(name string) string {
	name = strings.TrimRight(name, "\x00")
	if abstract, ok := strings.CutPrefix(name, "\x00"); ok {
		name = "@" + abstract
	}
	switch {
	case name == "":
		return "without a name"
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || r == unicode.ReplacementChar }):
		return strconv.Quote(name)
	}
	return name
}

// maxUnixSockets bounds the sockets that are kept of a network namespace: a job may have as many as fit into its
// memory.
const maxUnixSockets = 1 << 18

// unixSockets returns the unix sockets of a network namespace that are to be kept, by the links of their descriptors.
func unixSockets(namespace string, keep func(unixSocket) bool) (map[string]unixSocket, error) {
	ns, err := os.Open(namespace)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	sockets := map[string]unixSocket{}
	tooMany := false
	take := func(b []byte) bool {
		if s, err := parseUnixSocket(b); err == nil && keep(s) {
			sockets[socketLink(s.inode)] = s
		}
		tooMany = len(sockets) > maxUnixSockets
		return !tooMany
	}
	done := make(chan error)
	go func() {
		// The thread does not come back to this process's namespace: it ends with this goroutine.
		runtime.LockOSThread()
		err := os.NewSyscallError("setns", unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET))
		if err == nil {
			err = askUnixSockets(take)
		}
		done <- err
	}()
	switch err := <-done; {
	case err != nil:
		return nil, fmt.Errorf("unix sockets: %w", err)
	case tooMany:
		return nil, fmt.Errorf("the job has more than %d unix sockets on this node", maxUnixSockets)
	}
	return sockets, nil
}

// Numbers of linux/unix_diag.h.
const (
	unixDiagName = 0
	unixDiagVFS  = 1
	unixDiagPeer = 2

	established  = 1  // of net/tcp_states.h
	unixDiagSize = 16 // of struct unix_diag_msg, before the attributes
)

// askUnixSockets asks the kernel for the unix sockets of the thread's network namespace, with names, files and peers. take is called
// with the answer for each socket, until it returns false.
func askUnixSockets(take func([]byte) bool) error {
	// struct unix_diag_req: family, protocol, padding, states, inode, attributes to show, cookie.
	request := []byte{unix.AF_UNIX, 0, 0, 0}
	for _, n := range []uint32{^uint32(0), 0, 1<<unixDiagName | 1<<unixDiagVFS | 1<<unixDiagPeer, ^uint32(0), ^uint32(0)} {
		request = binary.NativeEndian.AppendUint32(request, n)
	}
	req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	req.AddRawData(request)
	err := req.ExecuteIter(unix.NETLINK_SOCK_DIAG, nl.SOCK_DIAG_BY_FAMILY, take)
	// After an interruption a socket may be missing: criu names a connection of it as an obstacle.
	if errors.Is(err, nl.ErrDumpInterrupted) {
		err = nil
	}
	return err
}

// parseUnixSocket parses a struct unix_diag_msg and its attributes.
func parseUnixSocket(b []byte) (unixSocket, error) {
	if len(b) < unixDiagSize || b[0] != unix.AF_UNIX {
		return unixSocket{}, unix.EINVAL
	}
	s := unixSocket{inode: binary.NativeEndian.Uint32(b[4:]), datagram: b[1] == unix.SOCK_DGRAM, connected: b[2] == established}
	attrs, err := nl.ParseRouteAttr(b[unixDiagSize:])
	for _, a := range attrs {
		switch {
		case a.Attr.Type == unixDiagName:
			s.name = string(a.Value)
		case a.Attr.Type == unixDiagVFS:
			s.hasFile = true
		case a.Attr.Type == unixDiagPeer && len(a.Value) >= 4:
			s.peer = binary.NativeEndian.Uint32(a.Value)
		}
	}
	return s, err
}
