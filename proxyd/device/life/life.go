// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// Server is a handle of a device server, or of the remains of a device server that has ended. It is safe for
// concurrent use: orders wait for each other.
type Server struct {
	dir   string
	rec   record
	pidfd *os.File // nil if the server had ended before the handle was made
	died  chan struct{}

	ending sync.Mutex
	closed sync.Once
}

// ErrDied is wrapped by the errors of orders to a server that has ended.
var ErrDied = errors.New("the device server has ended")

// Find returns the device server of a folder, whichever process has started the server. It also returns a
// server that has ended or was never finished: Died is closed then, and the caller must call End. Find
// returns nil if the folder does not exist.
func Find(_ context.Context, dir string) (*Server, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	rec, err := readRecord(dir)
	if err != nil {
		return nil, fmt.Errorf("device server in %s: %w", dir, err)
	}
	s, err := openRecorded(dir, rec)
	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w", rec.serverName(), dir, err)
	}
	return s, nil
}

// openRecorded makes the handle of the server in a record.
func openRecorded(dir string, rec record) (*Server, error) {
	s := endedServer(dir, rec)
	var err error
	if s.pidfd, err = rec.openProcess(); err != nil || s.pidfd == nil {
		return s, err
	}
	s.died = make(chan struct{})
	go func() {
		if waitPidfd(s.pidfd) == nil {
			close(s.died)
		}
	}()
	return s, nil
}

// endedServer makes the handle of a server that has no process any more.
func endedServer(dir string, rec record) *Server {
	s := &Server{dir: dir, rec: rec, died: make(chan struct{})}
	close(s.died)
	return s
}

// waitPidfd returns nil when the process has ended, and an error when the file is closed.
func waitPidfd(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n > 0
	})
}

// Dir returns the server's folder.
func (s *Server) Dir() string { return s.dir }

// SocketDir returns the folder with the socket "device", for the capsule to mount. Only the server's user may
// connect to the socket; only root may write to the folder.
func (s *Server) SocketDir() string { return filepath.Join(s.dir, socketDir) }

// PID returns the server's PID, or 0 if the server was never started. Use the PID only while the server is
// known to run: the kernel reuses PIDs.
func (s *Server) PID() int { return s.rec.PID }

// Cgroup returns the cgroup of the server's process, or "".
func (s *Server) Cgroup() string {
	if s.rec.Shared != "" {
		rec, err := readRecord(s.rec.Shared)
		if err != nil {
			return ""
		}
		return rec.Cgroup
	}
	s.ending.Lock()
	defer s.ending.Unlock()
	return s.rec.Cgroup
}

// Enter moves a server that has no cgroup into a cgroup of its own, which Enter makes if it is missing and
// End removes. Memory that the server has already allocated is not counted in the new cgroup. Enter returns
// ErrDied for a server that has ended, because its PID may be another process's by then. For tenants the cgroup of the
// first counts.
func (s *Server) Enter(cgroup string) error {
	if s.rec.Shared != "" {
		return s.enterShared(cgroup)
	}
	s.ending.Lock()
	defer s.ending.Unlock()
	select {
	case <-s.died:
		return fmt.Errorf("%s in %s: enter a cgroup: %w", s.rec.serverName(), s.dir, ErrDied)
	default:
	}
	rec := s.rec
	rec.Cgroup = cgroup
	err := rec.writeRecord(s.dir) // recorded first, so that End can remove the cgroup
	if err == nil {
		s.rec.Cgroup = cgroup
		err = group(cgroup).addProcess(rec.PID)
	}
	if err != nil {
		return fmt.Errorf("%s in %s: enter a cgroup: %w", s.rec.serverName(), s.dir, err)
	}
	return nil
}

// OutOfMemory tells whether the kernel killed the server because the server's job, in whose cgroup the
// server's cgroup is, reached its memory limit. It is false if the whole node was out of memory. Call
// OutOfMemory for a server that has ended.
func (s *Server) OutOfMemory() bool { return group(s.Cgroup()).wasKilledForMemory() }

// Died is closed when the server has ended.
func (s *Server) Died() <-chan struct{} { return s.died }

// giveOrder opens a connection, and has f give an order over the connection.
func (s *Server) giveOrder(ctx context.Context, what string, f func(*server.Controller) error) error {
	select {
	case <-s.died:
		return fmt.Errorf("device server in %s: %s: %w", s.dir, what, ErrDied)
	default:
	}
	c, err := s.connectToServer(ctx)
	if err == nil {
		err = f(c)
		c.Close()
	}
	if err == nil {
		return nil
	}
	var said *server.OrderError
	if ctx.Err() == nil && !errors.As(err, &said) && s.hasDied() {
		err = fmt.Errorf("%w (%w)", ErrDied, err)
	}
	return fmt.Errorf("device server in %s: %s: %w", s.dir, what, err)
}

// hasDied tells whether the server has ended or is about to end: the kernel closes the server's sockets a
// moment before it reports the end of the process.
func (s *Server) hasDied() bool {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-s.died:
		return true
	case <-t.C:
		return false
	}
}

func (s *Server) connectToServer(ctx context.Context) (*server.Controller, error) {
	conn, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return server.NewController(conn), nil
}

// Dial connects to the socket for orders. Helpers use it for orders of their own kind.
func (s *Server) Dial(ctx context.Context) (*net.UnixConn, error) {
	var conn net.Conn
	err := throughFolder(s.dir, controlName, func(path string) (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "unixpacket", path)
		return err
	})
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// Save makes the server stop the job and save the job's state to a sink. See server.Controller and
// server.Server. After success the job is stopped until Resume or End. After a failure the job runs on,
// unless the job is at a cut: then the leader of the cut lets the job run on.
func (s *Server) Save(ctx context.Context, sink server.Sink, o server.SaveOptions) (*server.Report, error) {
	var r *server.Report
	err := s.giveOrder(ctx, "save", func(c *server.Controller) (err error) {
		r, err = c.Save(ctx, sink, o)
		return err
	})
	if err == nil {
		return r, nil
	}
	var said *server.OrderError
	if errors.As(err, &said) || errors.Is(err, ErrDied) || o.Attempt != 0 {
		return nil, err
	}
	// ctx may have ended after the server had carried the order out. The job is let go under a context that
	// has not ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	if bad := s.Resume(ctx); bad != nil && !errors.As(bad, &said) {
		err = errors.Join(err, bad)
	}
	return nil, err
}

func (s *Server) orderRestore(ctx context.Context, src server.Source) error {
	return s.giveOrder(ctx, "restore", func(c *server.Controller) error { return c.Restore(ctx, src) })
}

// Adopt connects a process with the state that a restored server has for it: pid is the process's present
// number in the server's PID namespace. with has the descriptors that the process has brought
// (server.OpenHostMappings), which the caller closes; if with is empty, only a server that runs as root can find
// them.
func (s *Server) Adopt(ctx context.Context, id uint64, pid int, with []*os.File) error {
	return s.giveOrder(ctx, "adopt", func(c *server.Controller) error { return c.Adopt(ctx, id, pid, with) })
}

// Exchange implements cut.Member.
func (s *Server) Exchange(ctx context.Context, o *cut.Orders) (e *cut.Events, err error) {
	err = s.giveOrder(ctx, "exchange", func(c *server.Controller) (err error) {
		e, err = c.Exchange(ctx, o)
		return err
	})
	return e, err
}

// Address returns the address at which device servers of other nodes reach this server.
func (s *Server) Address(ctx context.Context) (at string, err error) {
	err = s.giveOrder(ctx, "address", func(c *server.Controller) (err error) {
		at, err = c.Address(ctx)
		return err
	})
	return at, err
}

// Reconnect gives a restored server the addresses of all device servers of its job, by their numbers. See
// server.Server.
func (s *Server) Reconnect(ctx context.Context, peers map[int]string) error {
	return s.giveOrder(ctx, "reconnect", func(c *server.Controller) error { return c.Reconnect(ctx, peers) })
}

// Resume lets the job go on after Save, or after Restore and Adopt.
func (s *Server) Resume(ctx context.Context) error {
	return s.giveOrder(ctx, "resume", func(c *server.Controller) error { return c.Resume(ctx) })
}

// Place moves the job's devices to other devices of the machine while the job runs. See server.Server.
func (s *Server) Place(ctx context.Context, places []int) error {
	return s.giveOrder(ctx, "place", func(c *server.Controller) error { return c.Place(ctx, places) })
}

// Arrange moves the job's devices to other devices of the machine while the job runs: devices that are alike come to
// the same device. See server.Server.
func (s *Server) Arrange(ctx context.Context, places []int) error {
	return s.giveOrder(ctx, "place", func(c *server.Controller) error { return c.Arrange(ctx, places) })
}

// Status returns the server's present state and its counters. It waits for an order that is under way.
func (s *Server) Status(ctx context.Context) (st *server.Status, err error) {
	err = s.giveOrder(ctx, "status", func(c *server.Controller) (err error) {
		st, err = c.Status(ctx)
		return err
	})
	return st, err
}

// End kills the server, waits until the process has ended, removes the server's cgroup and folder, and closes
// the handle. End may be called again, also after a failure, and for a server that was never finished. A tenant's process
// goes on as long as it has other tenants.
func (s *Server) End(ctx context.Context) error {
	if s.rec.Shared != "" {
		defer lockShared(s.rec.Shared)()
	}
	return s.endServing(ctx)
}

// endServing is End; for a tenant, the caller holds the lock of lockShared.
func (s *Server) endServing(ctx context.Context) error {
	s.ending.Lock()
	defer s.ending.Unlock()
	endProcess := s.endAlone
	if s.rec.Shared != "" {
		endProcess = s.endTenant
	}
	err := endProcess(ctx)
	if err == nil {
		err = os.RemoveAll(s.dir) // last, because the folder's record names the cgroup and process to be removed
	}
	if err != nil {
		return fmt.Errorf("%s in %s: end: %w", s.rec.serverName(), s.dir, err)
	}
	s.Close()
	return nil
}

// endAlone ends the process and its cgroup.
func (s *Server) endAlone(ctx context.Context) error {
	if err := s.killProcess(ctx); err != nil {
		return err
	}
	return group(s.rec.Cgroup).endGroup(ctx)
}

func (s *Server) killProcess(ctx context.Context) error {
	select {
	case <-s.died:
		return nil
	default:
	}
	err := localsock.TryWithDescriptor(s.pidfd, func(fd int) error { return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) })
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill it: %w", err)
	}
	select {
	case <-s.died:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for its end: %w", ctx.Err())
	}
}

// Close closes the handle; the server runs on. Died is never closed after that.
func (s *Server) Close() {
	s.closed.Do(func() {
		if s.pidfd != nil {
			s.pidfd.Close()
		}
	})
}
