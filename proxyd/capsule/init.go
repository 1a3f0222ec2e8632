// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// firstPID is above the PIDs of init's threads and of CRIU's helpers, which must differ from the
// PIDs of restored programs.
const firstPID = 301

// Init runs a capsule's first process. A main calls Init if its first argument is Arg, with the
// remaining arguments, and exits with its result; Init returns only if the capsule could not be
// built or the maker died before that.
func Init([]string) int {
	runtime.LockOSThread() // see init
	log.SetFlags(log.LstdFlags | log.LUTC)
	log.SetOutput(&limitedWriter{os.Stderr, maxLog})
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	ignoreOthers()
	orders := os.NewFile(orderFD, "orders")
	answers := os.NewFile(answerFD, "answers")
	if err := obeyMaker(orders, answers, children); err != nil {
		log.Print(err)
		_ = json.NewEncoder(answers).Encode(answer{Error: err.Error(), Errno: localsock.FindErrno(err)}) // the maker may be dead
		return 1
	}
	orders.Close()
	answers.Close()
	select {} // SIGKILL ends a capsule
}

// maxLog bounds init.log: each invalid message of a user's wardens adds a line.
const maxLog = 1 << 20

// limitedWriter drops output beyond left bytes. Package log serializes its writes.
type limitedWriter struct {
	to   *os.File
	left int
}

func (l *limitedWriter) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return len(b), nil
	}
	return l.to.Write(b)
}

// obeyMaker carries out the maker's two orders. If the error is nil, programs can be started.
func obeyMaker(orders, answers *os.File, children <-chan os.Signal) error {
	in, out := json.NewDecoder(orders), json.NewEncoder(answers)
	var first, goAhead order
	if err := in.Decode(&first); err != nil {
		return err
	}
	if err := buildRoot(first.Spec); err != nil {
		return err
	}
	s, err := newServer(first)
	if err != nil {
		return err
	}
	if err := out.Encode(answer{}); err != nil {
		return err
	}
	if err := in.Decode(&goAhead); err != nil { // end of file: the maker is dead
		return err
	}
	if err := finishRoot(first.Spec); err != nil {
		return err
	}
	s.startServing(children)
	if !first.Spec.Restore {
		// Last, because every later thread takes a PID from the programs' range.
		if err := setLastPID(firstPID - 1); err != nil {
			return err
		}
	}
	return out.Encode(answer{})
}

// ignoreOthers ignores signals that a job of root's could send and by which the Go runtime would
// end this process, except the signals that the runtime needs.
func ignoreOthers() {
	for sig := syscall.Signal(1); sig < 32; sig++ {
		switch sig {
		case unix.SIGCHLD, unix.SIGURG, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGABRT, unix.SIGTRAP, unix.SIGSYS, unix.SIGPROF:
		default:
			signal.Ignore(sig)
		}
	}
}

// newServer opens both sockets. From then on wardens can connect, and wait to be admitted.
func newServer(o order) (*server, error) {
	control, err := openListener(controlFD)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	wardens, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: "@" + wardenSocket})
	if err != nil {
		return nil, fmt.Errorf("wardens' socket: %w", err)
	}
	if o.Spec.Cgroups != "" {
		if err := usableCgroups(o.Spec.Cgroups); err != nil {
			return nil, fmt.Errorf("cgroups: %w", err)
		}
	}
	return &server{
		id:      o.ID,
		owner:   o.Spec.Owner,
		cgroups: o.Spec.Cgroups,
		proc:    os.NewFile(procFD, "proc"),
		control: control,
		wardens: wardens,
		table:   newTable(o.Spec.Hold),

		containers: containers{folder: o.Spec.Containers},

		peers:    map[conn]*warden{},
		watchers: map[*net.UnixConn]bool{},
	}, nil
}

func openListener(fd int) (*net.UnixListener, error) {
	f := os.NewFile(uintptr(fd), "control")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	ul, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, errors.New("not a unix socket")
	}
	return ul, nil
}

const lastPIDPath = "/proc/sys/kernel/ns_last_pid"

func setLastPID(pid int) error {
	return os.WriteFile(lastPIDPath, fmt.Appendf(nil, "%d", pid), 0)
}

func lastPID() (int, error) {
	b, err := os.ReadFile(lastPIDPath)
	if err != nil {
		return 0, err
	}
	pid := 0
	_, err = fmt.Sscan(string(b), &pid)
	return pid, err
}
