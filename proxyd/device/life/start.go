// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// Spec describes the device server to start.
type Spec struct {
	Dir     string // the server's folder, an absolute path; Start makes it for root alone, and it must not exist
	Program string // the path of proxyd; "" is the running program

	// UID, GID and Groups are those of the job's user.
	UID, GID uint32
	Groups   []uint32
	// OOM is the server's oom_score_adj. The server inherits all other limits of a process from its starter;
	// use Cgroup to limit memory and CPU time.
	OOM int
	// Cgroup, if set, is the path of a cgroup v2 folder for this server alone. Start makes the cgroup if it
	// is missing and starts the server in it. End removes it.
	Cgroup string

	// Helper, if set, is the command of proxyd that runs instead of a device server: a process with the same life,
	// which takes orders of its own by Server.Dial. It gets no socket for programs, and the fields below do not
	// concern it.
	Helper string

	Kind   string   // of devices; "" is the program's default, software GPUs
	GPUs   []string // kind cuda: UUIDs of the GPUs to use; numbers would depend on the cgroup of devices
	Exact  bool     // makes the result of reductions independent of where ranks are
	Count  int      // number of software GPUs
	Spare  int      // number of additional software GPUs, for Place
	Memory string   // of each software GPU, as in "4G"; "" is the program's default
	// Capability is the compute capability of software GPUs, as in "8.0"; "" is the program's default.
	Capability string
	// Kernels is how software GPUs execute kernels, compiled or interpreted; "" is the program's default.
	Kernels string
	Address string // of this host, for device servers of other nodes; "" is the program's default
	Self    int    // number of this server among the job's device servers, from 0
	Order   []int  // for each device of the job, the number of the machine's device; nil: the same numbers
	Regroup bool   // lets devices that turn out to be alike share a device, against Order
	Verbose bool   // logs each process that attaches or ends

	// Shared, if set, is the folder of a process that serves several capsules of a job: see shared.go. The process is
	// started with the first of them, by the Spec of that one; Order, Regroup, Exact, Self and Dir are each tenant's own.
	Shared string
}

// ErrExists is wrapped by the error of Start and Restore if the folder exists already. Call Find and End for
// that folder first.
var ErrExists = errors.New("the folder is there already")

// serverStart is the state of a device server during Start.
type serverStart struct {
	Spec
	await   bool // set for a restore: wait for Adopt
	host    bool // a process for tenants
	rec     record
	control *os.File
	devices *os.File
	log     *os.File
	group   *os.File
	gate    *os.File // our end of the gate's pipe
	s       *Server
}

// step is a step of making a device server.
type step struct {
	name string
	do   func(*serverStart, context.Context) error
}

// steps make a device server, from top to bottom. Whichever step the daemon dies after, Find and End find all
// that the steps have made, and no process passes its gate before its record is written.
var steps = []step{
	{"folder", (*serverStart).makeFolder},
	{"record", (*serverStart).recordGroup}, // the cgroup is recorded before it exists, so that End can remove it
	{"cgroup", (*serverStart).makeGroup},
	{"sockets", (*serverStart).makeSockets},
	{"log", (*serverStart).makeLog},
	{"process", (*serverStart).makeProcess}, // the process waits at its gate, and exits if the daemon dies
	{"identity", (*serverStart).recordProcess},
	{"gate", (*serverStart).openGate}, // the process becomes the user's
	{"ready", (*serverStart).awaitReady},
}

// passed is called after each step. Tests end the process there.
var passed = func(string) {}

// Start starts a device server and returns when processes can attach to it. The server goes on when the
// process that called Start ends: Find returns the server again. If Start fails, it removes all that it has made. Start
// needs root. A systemd unit that calls Start needs KillMode=process, or systemd would kill the server with the unit.
func Start(ctx context.Context, spec Spec) (*Server, error) {
	return (&serverStart{Spec: spec}).makeAll(ctx)
}

func (m *serverStart) makeAll(ctx context.Context) (*Server, error) {
	if m.Shared != "" {
		defer lockShared(m.Shared)()
		return m.makeSteps(ctx, tenantSteps)
	}
	return m.makeSteps(ctx, steps)
}

// makeSteps carries out steps. If a step fails, undoMaking removes all that they have made.
func (m *serverStart) makeSteps(ctx context.Context, steps []step) (*Server, error) {
	defer m.closeMaking()
	for _, step := range steps {
		if err := step.do(m, ctx); err != nil {
			err = fmt.Errorf("%s in %s: %s: %w", m.rec.serverName(), m.Dir, step.name, err)
			if errors.Is(err, ErrExists) {
				return nil, err
			}
			return nil, errors.Join(err, m.undoMaking(ctx))
		}
		passed(step.name)
	}
	return m.s, nil
}

// Restore starts a device server that builds the saved state. The job is stopped then: processes come back by
// Adopt, and Resume lets them go on. The rest of Start's contract holds for Restore, too.
func Restore(ctx context.Context, spec Spec, src server.Source) (*Server, error) {
	s, err := (&serverStart{Spec: spec, await: true}).makeAll(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.orderRestore(ctx, src); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		return nil, errors.Join(err, s.End(ctx))
	}
	return s, nil
}

// cleanTime bounds the cleaning up after a failure.
const cleanTime = 30 * time.Second

// undoMaking removes all that the steps have made.
func (m *serverStart) undoMaking(ctx context.Context) error {
	m.closeMaking() // a process that still waits at its gate exits when the gate is closed
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	if m.s == nil {
		m.s = endedServer(m.Dir, m.rec)
	}
	return m.s.endServing(ctx)
}

// closeMaking closes the descriptors that only Start needs. It may be called more than once.
func (m *serverStart) closeMaking() {
	for _, f := range []*os.File{m.control, m.devices, m.log, m.group, m.gate} {
		if f != nil {
			f.Close()
		}
	}
}

func (m *serverStart) makeFolder(context.Context) error {
	err := os.Mkdir(m.Dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	return err
}

func (m *serverStart) recordGroup(context.Context) error {
	var err error
	if m.rec.Boot, err = procfs.BootID(); err != nil {
		return err
	}
	m.rec.Cgroup, m.rec.Helper = m.Cgroup, m.Helper
	return m.rec.writeRecord(m.Dir)
}

func (m *serverStart) makeGroup(context.Context) (err error) {
	if m.Cgroup != "" {
		m.group, err = group(m.Cgroup).makeGroup()
	}
	return err
}

// makeSockets binds the control socket and listens on it, and binds the socket for processes. The server
// itself calls listen on the second socket: a shim asks the kernel which process called listen, and lets that
// process read the shim's memory.
func (m *serverStart) makeSockets(context.Context) error {
	var err error
	if m.control, err = bindSocket(m.Dir, controlName); err != nil {
		return err
	}
	if err := localsock.TryWithDescriptor(m.control, func(fd int) error { return unix.Listen(fd, unix.SOMAXCONN) }); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if m.host {
		return nil
	}
	folder := filepath.Join(m.Dir, socketDir)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(folder, 0o755); err != nil { // the umask must not remove bits
		return err
	}
	if m.devices, err = bindSocket(folder, socketName); err != nil {
		return err
	}
	return os.Chown(filepath.Join(folder, socketName), int(m.UID), int(m.GID))
}

// bindSocket binds a socket of a name in a folder. Only the socket's owner may connect.
func bindSocket(dir, name string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	err = throughFolder(dir, name, func(path string) error { return unix.Bind(fd, &unix.SockaddrUnix{Name: path}) })
	if err == nil {
		err = os.Chmod(filepath.Join(dir, name), 0o600) // no connection is accepted before listen is called
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return f, nil
}

// throughFolder calls f with a path of the socket that fits into a socket address, however long dir is. The
// path is valid until f returns.
func throughFolder(dir, name string, f func(path string) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return localsock.TryWithDescriptor(d, func(fd int) error { return f(fmt.Sprintf("/proc/self/fd/%d/%s", fd, name)) })
}

func (m *serverStart) makeLog(context.Context) (err error) {
	m.log, err = os.OpenFile(filepath.Join(m.Dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return err
}

// recordProcess writes the process's identity to the record. The process is reaped only after that: until
// then no other process can get the same PID.
func (m *serverStart) recordProcess(context.Context) (err error) {
	defer func() { go reapChild(m.rec.PID) }()
	if m.rec.Start, err = procfs.StartTime(m.rec.PID); err != nil {
		return fmt.Errorf("it has ended: %w%s", err, lastWords(m.Dir))
	}
	if m.s, err = openRecorded(m.Dir, m.rec); err != nil {
		return err
	}
	return m.rec.writeRecord(m.Dir)
}

func (m *serverStart) openGate(context.Context) error {
	b, err := json.Marshal(identity{UID: m.UID, GID: m.GID, Groups: m.Groups, OOM: m.OOM})
	if err == nil {
		_, err = m.gate.Write(b)
	}
	if err != nil {
		return fmt.Errorf("%w%s", err, lastWords(m.Dir))
	}
	return m.gate.Close()
}

// awaitReady asks the server for its status, which the server returns when it serves or has been restored.
// The daemon's ends of the sockets are closed before: otherwise a connection to a dead server would wait for
// ever.
func (m *serverStart) awaitReady(ctx context.Context) error {
	m.closeMaking()
	var err error
	switch {
	case m.Helper != "": // the first order to a helper waits until the helper listens
	case m.host:
		_, err = m.s.askTenants(ctx)
	default:
		_, err = m.s.Status(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w%s", err, lastWords(cmp.Or(m.rec.Shared, m.Dir)))
	}
	return nil
}

// lastWords returns the last lines of a log, as a part of an error message.
func lastWords(dir string) string {
	const most = 2000
	b, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil || len(b) == 0 {
		return ""
	}
	return ": " + strings.ToValidUTF8(strings.TrimSpace(string(b[max(0, len(b)-most):])), "?")
}
