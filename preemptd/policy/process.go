// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"
)

// process runs a policy for go-plugin, in a process group of its own: the whole group is killed
// with its first process.
type process struct {
	cmd    *exec.Cmd
	memory int64  // bytes that the process may have written to
	folder string // where its socket must be

	stdout, stderr *os.File // the ends to read
	said           *output  // gets the bytes read from stderr
	saidAll        chan struct{}
	saidOnce       sync.Once // closes saidAll at the end of stderr
	done           chan struct{}
	exit           error // how the process ended, once done is closed
}

var _ runner.Runner = (*process)(nil)

// Start starts the process. From the start to the end a single thread is its parent, because the
// kernel sends the death signal when that thread ends, not the daemon.
func (p *process) Start(context.Context) error {
	out, err := outputPipe(&p.stdout, &p.cmd.Stdout)
	if err != nil {
		return err
	}
	defer out.Close()
	errOut, err := outputPipe(&p.stderr, &p.cmd.Stderr)
	if err != nil {
		p.stdout.Close()
		return err
	}
	defer errOut.Close()
	p.cmd.Stdin = nil // go-plugin sets ours
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		if err == nil {
			err = p.limitResources()
		}
		started <- err
		if p.cmd.Process != nil {
			p.reapProcess()
		}
	}()
	if err = <-started; err != nil {
		_ = p.Kill(context.Background())
		p.closePipes()
	}
	return err
}

// outputPipe gives the command the end to write to, and returns that end, to be closed here when
// the command has a copy.
func outputPipe(read **os.File, write *io.Writer) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	*read, *write = r, w
	return w, nil
}

// limitResources bounds the memory that the process can write to. Memory that a Go program only reserves is not
// counted.
func (p *process) limitResources() error {
	if p.memory <= 0 {
		return nil
	}
	bound := unix.Rlimit{Cur: uint64(p.memory), Max: uint64(p.memory)}
	err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_DATA, &bound, nil)
	if err != nil && !errors.Is(err, unix.ESRCH) { // the process has ended: reapProcess tells how
		return fmt.Errorf("limit memory: %w", err)
	}
	return nil
}

// reapProcess waits for the end. While the first process is not reaped, its number is not reused:
// only then its group can be killed safely.
func (p *process) reapProcess() {
	pid := p.cmd.Process.Pid
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = unix.Kill(-pid, unix.SIGKILL)
	p.exit = p.cmd.Wait()
	close(p.done)
}

// Wait waits until the process has ended.
func (p *process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.exit
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain is for how long the output of a process that has ended is read on, if a process that escaped
// from the group has the pipe open.
const drain = time.Second

// Kill ends the process. Readers of its output read all of it, and soon the end of the output even if
// a process that escaped from the group has the pipe open.
func (p *process) Kill(ctx context.Context) error {
	if p.cmd.Process == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	err := p.Wait(ctx)
	_ = p.stdout.SetReadDeadline(time.Now().Add(drain)) // a closed pipe has no readers
	_ = p.stderr.SetReadDeadline(time.Now().Add(drain))
	var status *exec.ExitError
	if errors.As(err, &status) {
		return nil
	}
	return err
}

// closePipes closes the pipes when their readers are done. It may be called twice.
func (p *process) closePipes() {
	p.stdout.Close()
	p.stderr.Close()
}

// Stdout is the standard output of the process.
func (p *process) Stdout() io.ReadCloser { return p.stdout }

// Stderr is the standard error of the process. The bytes read from it go to the output as well.
func (p *process) Stderr() io.ReadCloser { return complaints{p} }

// complaints is the standard error of a process. go-plugin reads it at its own time, and does not tell when it has
// read all: so each read goes to the output from here, before the end is known.
type complaints struct{ process *process }

// Read implements io.Reader.
func (c complaints) Read(b []byte) (int, error) {
	p := c.process
	n, err := p.stderr.Read(b)
	_, _ = p.said.Write(b[:n]) // never fails
	if err != nil {
		p.saidOnce.Do(func() {
			_, _ = p.said.Write([]byte{'\n'}) // the last line may have no end
			close(p.saidAll)
		})
	}
	return n, err
}

// Close implements io.Closer.
func (c complaints) Close() error { return c.process.stderr.Close() }

// Name returns the path of the program.
func (p *process) Name() string { return p.cmd.Path }

// ID returns the number of the process.
func (p *process) ID() string {
	if p.cmd.Process == nil {
		return ""
	}
	return strconv.Itoa(p.cmd.Process.Pid)
}

// Diagnose adds no text: the output is in the error.
func (p *process) Diagnose(context.Context) string { return "" }

// PluginToHost lets a policy listen in its own folder only.
func (p *process) PluginToHost(network, address string) (string, string, error) {
	if network != "unix" || filepath.Dir(address) != p.folder {
		return "", "", fmt.Errorf("listens at %s %s, not in its folder %s", network, address, p.folder)
	}
	return network, address, nil
}

// HostToPlugin returns the address as it is.
func (p *process) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// fileIdentity identifies a file by its inode, under any name: a file in its place is another.
func fileIdentity(info os.FileInfo) any {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return nil
}
