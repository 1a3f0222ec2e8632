// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package enter starts a process inside a host of the cluster. No agent is needed there: a pidfd
// of the host's first process is enough to join its namespaces.
package enter

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/passwd"
)

// namespaces are the namespaces of a host. A single setns joins all, and takes care of their order.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// Exit codes that a shell gives for a command it could not run.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// NotStartedError says why a command could not be started, with the exit code
// that a shell would have given.
type NotStartedError struct {
	Command string
	Code    int
	Err     error
}

func (e *NotStartedError) Error() string { return fmt.Sprintf("%s: %v", e.Command, e.Err) }

// Unwrap returns the cause.
func (e *NotStartedError) Unwrap() error { return e.Err }

// Command is a program to run. The environment is that of a fresh login of User, plus
// Env; the working directory is Dir, or else the user's home, or else /.
type Command struct {
	User  string // must exist in the host's /etc/passwd; "" is root
	Argv  []string
	Env   []string
	Dir   string
	Files [3]*os.File // standard input, output and error; nil is /dev/null

	Daemon bool // a session of its own and root's PATH; otherwise the process stays in the caller's session and group
}

// Process is a started command.
type Process struct {
	proc *os.Process
	done chan struct{}
	code int
}

// Start joins the namespaces of the process behind pidfd and starts c there. The
// caller keeps pidfd and c.Files.
//
// The joining is done by a thread of its own that ends with the process: a thread
// that has left the namespaces of its program must never run other goroutines.
func Start(pidfd int, c Command) (*Process, error) {
	p := &Process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread dies with this goroutine
		proc, err := joinHost(pidfd, c)
		p.proc = proc
		started <- err
		if err != nil {
			return
		}
		state, err := proc.Wait()
		p.code = exitCode(state, err)
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Signal sends s to the process. Signal is safe after the end of the process.
func (p *Process) Signal(s os.Signal) error { return p.proc.Signal(s) }

// Done is closed when the process has ended and has been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Code waits for the end and returns the exit code as a shell would: 128 + n for
// an end by signal n.
func (p *Process) Code() int {
	<-p.done
	return p.code
}

func exitCode(state *os.ProcessState, err error) int {
	if err != nil {
		return 255
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// joinHost must run on a locked thread that is not used afterwards.
func joinHost(pidfd int, c Command) (*os.Process, error) {
	// The mount namespace cannot be left by a thread that shares its root and working directory
	// with other threads.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Setns(pidfd, namespaces); err != nil {
		return nil, fmt.Errorf("join the host's namespaces: %w", err)
	}
	user, err := passwd.Find("/etc", cmp.Or(c.User, "root"))
	if err != nil {
		return nil, err
	}
	who := login{user}
	env := append(who.buildEnvironment(c.Daemon), c.Env...)
	dir := who.startDirectory(c.Dir)
	path, err := findProgram(c.Argv[0], dir, env)
	if err != nil {
		return nil, err
	}
	unix.Umask(0o022) // this thread's own since unshare
	attr := &os.ProcAttr{Dir: dir, Env: env, Sys: &syscall.SysProcAttr{Credential: who.makeCredential(), Setsid: c.Daemon}}
	closeAll, err := processFiles(attr, c.Files)
	defer closeAll()
	if err != nil {
		return nil, err
	}
	proc, err := os.StartProcess(path, c.Argv, attr)
	if err != nil {
		return nil, &NotStartedError{c.Argv[0], codeNotExecutable, errors.Unwrap(err)}
	}
	return proc, nil
}

func processFiles(attr *os.ProcAttr, given [3]*os.File) (closeAll func(), err error) {
	var null *os.File
	closeAll = func() {
		if null != nil {
			null.Close()
		}
	}
	for _, f := range given {
		if f == nil && null == nil {
			if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
				return closeAll, err
			}
		}
		if f == nil {
			f = null
		}
		attr.Files = append(attr.Files, f)
	}
	return closeAll, nil
}

// findProgram looks for the program as an execvp called in dir would, in the PATH of env. It must
// run in the host's mount namespace.
func findProgram(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if _, err := os.Stat(name); err != nil {
			return "", &NotStartedError{name, codeNotFound, errors.Unwrap(err)}
		}
		return name, nil
	}
	for _, dir := range filepath.SplitList(variableIn(env, "PATH")) {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", &NotStartedError{name, codeNotFound, errors.New("command not found")}
}

// variableIn returns the last value of name in env, which is the value that counts.
func variableIn(env []string, name string) string {
	value := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}
