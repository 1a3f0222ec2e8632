// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// Arg is the hidden first argument by which a main calls Run.
const Arg = "srun-runner"

// enterArg follows Arg in the process that becomes srun.
const enterArg = "enter"

// The kernel tells srun of the death of the thread that has forked srun, not of the process. So
// the runner stays on the thread that it starts with.
func init() {
	if len(os.Args) > 1 && os.Args[1] == Arg {
		runtime.LockOSThread()
	}
}

// Run is the life of a runner: the runner starts srun, waits for its end and tells sing-srun. A main calls Run when the
// first argument of the program is Arg, with the other arguments, and exits with the status that Run returns.
func Run(args []string) int {
	if len(args) > 0 && args[0] == enterArg {
		return enterSrun()
	}
	if len(args) > 0 && args[0] == writeArg {
		return runWriter()
	}
	log.SetFlags(log.LstdFlags | log.LUTC) // to the folder's runner.log, as soon as that is known
	closeInherited()
	for fd := runnerOrders; fd <= runnerLast; fd++ {
		unix.CloseOnExec(fd)
	}
	if err := runCall(); err != nil {
		log.Print(err)
		return 1
	}
	return 0
}

// closeInherited closes descriptors that our starter has passed on by mistake. Descriptors that Go has opened already
// stay: its poller, and the files with the CPU limits.
func closeInherited() {
	_ = unix.CloseRange(runnerLast+1, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= runnerLast {
			continue
		}
		link, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(link, "anon_inode:") && !strings.Contains(link, "/cgroup") {
			_ = unix.Close(fd)
		}
	}
}

// lastWords bounds the time for which a child that srun has left may keep srun's standard error open.
const lastWords = 2 * time.Second

// mayReportEnd asks proxyd whether the user may be told of the end of srun. If the order has no socket to ask at, the
// user is told.
func (r *runner) mayReportEnd() bool {
	r.mu.Lock()
	quiet := r.quiet
	r.mu.Unlock()
	if quiet || r.o.Ask == "" {
		return !quiet
	}
	return mayTellUser(r.o.Ask, verbFailed, r.o.Dir)
}

// patience is the time that srun has after SIGTERM when its sing-srun was killed.
const patience = 10 * time.Second

// runner watches over an srun.
type runner struct {
	o   order
	pid int // of srun
	ctl *controlServer
	out *userWriter
	err *noticeFilter
	// noInput: srun does not read its standard input.
	noInput bool
	mu      sync.Mutex // guards the fields below; held during writes to the status pipe
	over    bool       // srun has been reaped: its PID may be another process's
	// quiet: the user is no longer told how srun goes on.
	quiet bool
	// alone: sing-srun is gone, the pipe has no reader.
	alone bool
}

func runCall() error {
	answers := os.NewFile(runnerAnswers, "answers")
	to := gob.NewEncoder(answers)
	if err := receiveCall(); err != nil {
		_ = to.Encode(answer{Error: err.Error()}) // the starter may be gone
		return err
	}
	if err := to.Encode(answer{}); err != nil {
		return err
	}
	orders := os.NewFile(runnerOrders, "orders")
	from := gob.NewDecoder(orders)
	r, rec, err := beginRunner(from)
	if err != nil {
		_ = to.Encode(answer{Error: err.Error()})
		writeOnlyStatus(from) // writes the reason, which the order has
		return err
	}
	if r == nil {
		return nil
	}
	orders.Close()
	// From here on our starter may end.
	status := "key " + r.o.Rewriting.Key
	if r.noInput {
		status = "input none\n" + status
	}
	r.writeStatus(status)
	if err := to.Encode(answer{Rec: rec}); err != nil {
		log.Print(err)
	}
	answers.Close()
	go r.ctl.serveRequests(r.obeyRequest)
	go r.watchReader()
	go r.err.forwardLines()
	how := reapChild(r.pid)
	select {
	case <-r.err.over:
	case <-time.After(lastWords):
	}
	if how != 0 && r.err.saysLaunchFailed() {
		if err := writeLaunchFailed(r.o.Dir); err != nil {
			log.Print(err)
		}
	}
	if how != 0 && !r.mayReportEnd() {
		r.mu.Lock()
		r.quiet = true
		r.mu.Unlock()
		r.err.dropNotices()
	}
	r.err.flushNotices()
	return r.reportEnd(how)
}

// writeOnlyStatus writes the text of the next order to the status pipe, if an order comes.
func writeOnlyStatus(from *gob.Decoder) {
	var o order
	if from.Decode(&o) == nil && o.Tell != "" {
		if err := o.writeStatus(); err != nil {
			log.Print(err)
		}
	}
}

// beginRunner starts srun. It returns no runner if the order was only to write a text.
func beginRunner(from *gob.Decoder) (*runner, record, error) {
	r := &runner{}
	// A full pipe, which the user may have filled, must not hang the runner.
	if err := unix.SetNonblock(runnerStatus, true); err != nil {
		return nil, record{}, err
	}
	if err := from.Decode(&r.o); err != nil {
		return nil, record{}, err
	}
	if r.o.Tell != "" {
		return nil, record{}, r.o.writeStatus()
	}
	if err := openLog(r.o.Dir); err != nil {
		return nil, record{}, err
	}
	var err error
	if r.ctl, err = listenControl(r.o.Dir); err != nil {
		return nil, record{}, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, record{}, err
	}
	r.out = newUserWriter(&r.o)
	go func() { _, _ = r.out.currentWriter() }() // starts beside srun; the first write reports an error
	rec, err := r.becomeSrun(errW)
	errW.Close()
	if err != nil {
		errR.Close()
		return nil, record{}, err
	}
	r.pid = rec.Srun
	var stay func() bool
	if r.o.Ask != "" {
		stay = func() bool { return mayTellUser(r.o.Ask, verbMessage, r.o.Dir) }
	}
	r.err = newNoticeFilter(errR, func(b []byte) { r.out.write(words{Text: b}) }, stay)
	for fd := runnerStdin; fd <= runnerLast; fd++ {
		if fd != runnerStderr { // for writers, as the status pipe
			_ = unix.Close(fd) // while this process held them, readers would not see them close
		}
	}
	r.o = order{Dir: r.o.Dir, Ask: r.o.Ask, Rewriting: RewriteParameters{Key: r.o.Rewriting.Key}} // the rest may be large
	return r, rec, nil
}

// openLog makes the folder's log the standard output and error of this process.
func openLog(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return localsock.TryWithDescriptor(f, func(fd int) error {
		return errors.Join(unix.Dup3(fd, 1, 0), unix.Dup3(fd, 2, 0))
	})
}

// becomeSrun forks the process that becomes srun and returns when that process is srun. The record is written before:
// Find misses no srun that runs.
func (r *runner) becomeSrun(stderr *os.File) (record, error) {
	o := &r.o
	o.Runner = os.Getpid()
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return record{}, err
	}
	defer orderW.Close()
	defer orderR.Close()
	errorR, errorW, err := os.Pipe() // closed by execve, or gets the error
	if err != nil {
		return record{}, err
	}
	defer errorR.Close()
	defer errorW.Close()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"singularity-srun", Arg, enterArg}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=2"},
		Files: []uintptr{runnerStdin, runnerStdout, stderr.Fd(), orderR.Fd(), errorW.Fd(), runnerMounts, runnerCall},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return record{}, err
	}
	orderR.Close()
	errorW.Close()
	rec, err := newRecord(o.Rewriting.Key, pid)
	if err == nil {
		err = rec.write(o.Dir)
	}
	if err == nil {
		err = gob.NewEncoder(orderW).Encode(o)
	}
	orderW.Close()
	if err == nil {
		said, _ := io.ReadAll(io.LimitReader(errorR, 4096)) // to the end, which is execve
		var wrong string
		if wrong, r.noInput = strings.CutPrefix(string(said), noInput); wrong != "" {
			err = errors.New(wrong)
		}
	}
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		reapChild(pid)
		_ = os.Remove(filepath.Join(o.Dir, recordName)) // the file may not be there yet
		return record{}, err
	}
	return rec, nil
}

// writeStatus writes a line to the status pipe. A reader that is gone, or does not read, loses the line. The caller is
// the only one that writes there.
func (r *runner) writeStatus(line string) {
	r.out.write(words{Status: true, Text: []byte(line + "\n")})
}

// reportEnd tells how srun ended. The status is written to the folder first: a sing-srun that sees the pipe closed
// without a status asks for it there.
func (r *runner) reportEnd(how syscall.WaitStatus) error {
	r.mu.Lock() // never unlocked: this process has no work any more
	r.over = true
	err := writeEnded(r.o.Dir, how)
	if !r.quiet {
		r.writeStatus(describeStatus(how))
	}
	return err
}

// watchReader ends srun when sing-srun is gone. SIGPIPE does not end this process: Go lets it do so for descriptors 1
// and 2 only.
func (r *runner) watchReader() {
	fds := []unix.PollFd{{Fd: runnerStatus}}
	for {
		if n, err := unix.Poll(fds, -1); err == nil && n > 0 {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alone = true
	r.endUnwanted()
}

// endUnwanted ends srun if no sing-srun waits for srun. Caller holds r.mu.
func (r *runner) endUnwanted() {
	if !r.alone || r.quiet || r.over {
		return
	}
	_ = unix.Kill(r.pid, unix.SIGTERM) // srun then ends its step
	time.AfterFunc(patience, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.over && !r.quiet {
			_ = unix.Kill(r.pid, unix.SIGKILL)
		}
	})
}

// obeyRequest carries out a request of the control socket.
func (r *runner) obeyRequest(request string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	verb, rest, _ := strings.Cut(request, " ")
	switch verb {
	case "quiet":
		r.quiet = true
		r.err.dropNotices()
	case "drained":
		return r.err.checkDrained()
	case "output":
		if rest != "all" && rest != "paced" {
			return fmt.Errorf("output %q", rest)
		}
		r.writeStatus(request)
	case "signal":
		var sig int
		if _, err := fmt.Sscan(rest, &sig); err != nil || sig < 1 || sig > 64 {
			return fmt.Errorf("signal %q", rest)
		}
		if r.over {
			return nil
		}
		if unix.Signal(sig) == unix.SIGTSTP {
			sig = int(unix.SIGSTOP) // srun is in a session of its own, where SIGTSTP has no effect
		}
		return unix.Kill(r.pid, unix.Signal(sig))
	default:
		return fmt.Errorf("request %q", verb)
	}
	return nil
}

// Names in an srun's folder.
const (
	recordName  = "srun.json"
	endedName   = "ended"
	launchName  = "launch_failed"
	controlName = "control"
	logName     = "runner.log"
)
