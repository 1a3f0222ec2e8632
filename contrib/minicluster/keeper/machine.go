// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/enter"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/host"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/passwd"
)

// machine is a host. Its spec never changes; the rest is protected by mu.
type machine struct {
	index int
	label string // "mini/n1"
	spec  host.Spec

	mu      sync.Mutex
	init    *host.Init // nil: the host is off
	off     chan struct{}
	pidfd   int
	cut     bool
	daemons []*daemon
}

// bootHost switches the host on. Its daemons are not started.
func (m *machine) bootHost(ctx context.Context) error {
	name := m.spec.Name
	if err := os.MkdirAll(m.spec.Logs, 0o755); err != nil {
		return err
	}
	if err := unplugCable(name); err != nil {
		return err
	}
	init, err := host.Start(m.label)
	if err != nil {
		return fmt.Errorf("host %s: %w", name, err)
	}
	pidfd, err := m.connectHost(ctx, init)
	if err != nil {
		init.Process.Kill()
		init.Process.Wait()
		return fmt.Errorf("host %s: %w", name, err)
	}
	m.switchedOn(init, pidfd)
	return nil
}

// connectHost gives the host its network and lets the host build itself.
func (m *machine) connectHost(ctx context.Context, init *host.Init) (pidfd int, err error) {
	if err := plugCable(m.spec.Name, init.Process.Pid); err != nil {
		return -1, err
	}
	stop := context.AfterFunc(ctx, func() { init.Process.Kill() })
	defer stop()
	if err := init.Boot(m.spec); err != nil {
		return -1, err
	}
	return unix.PidfdOpen(init.Process.Pid, 0)
}

func (m *machine) switchedOn(init *host.Init, pidfd int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	off := make(chan struct{})
	m.init, m.pidfd, m.off, m.cut = init, pidfd, off, false
	go func() {
		init.Process.Wait()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.init = nil
		unix.Close(pidfd)
		close(off)
	}()
}

// powerCut kills everything on the host at once and waits until the host is gone. First the host
// is cut off from the network: a machine without power sends no packet about the end of its
// connections.
func (m *machine) powerCut(ctx context.Context) error {
	m.mu.Lock()
	init, off := m.init, m.off
	m.mu.Unlock()
	if init == nil {
		return fmt.Errorf("host %s is off already", m.spec.Name)
	}
	if err := setPort(m.spec.Name, false); err != nil {
		return err
	}
	init.Process.Kill()
	if err := awaitSignal(ctx, off); err != nil {
		return fmt.Errorf("host %s: a process does not end: %w", m.spec.Name, err)
	}
	return nil
}

// isOn says whether the host is there. Where a host has just died, isOn waits for the end to be
// complete, so that the caller finds the final state.
func (m *machine) isOn() bool {
	m.mu.Lock()
	init, off := m.init, m.off
	dead := init != nil && hasEnded(m.pidfd)
	m.mu.Unlock()
	if dead {
		<-off
	}
	return init != nil && !dead
}

// hasEnded looks at a process that is perhaps not reaped yet.
func hasEnded(pidfd int) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// startDaemons starts the daemons that do not run, in order, each when the daemon before is ready.
// before may hold a daemon back; after is called for each daemon that is ready.
func (m *machine) startDaemons(ctx context.Context, before func(*daemon) error, after func(*daemon)) error {
	for _, d := range m.daemons {
		if d.done || d.isRunning() {
			continue
		}
		if err := before(d); err != nil {
			return err
		}
		if err := m.startDaemon(ctx, d); err != nil {
			return err
		}
		after(d)
	}
	return nil
}

// startDaemon starts a daemon and waits until the daemon is ready.
func (m *machine) startDaemon(ctx context.Context, d *daemon) error {
	path := filepath.Join(m.spec.Logs, d.name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	first, err := m.openFirstProcess()
	if err != nil {
		return err
	}
	defer first.closeFiles()
	if err := makeRunDir(first.pid, d); err != nil {
		return m.daemonFailed(d, path, err)
	}
	p, err := enter.Start(first.pidfd, enter.Command{User: d.user, Argv: d.argv, Env: d.env, Dir: "/", Files: [3]*os.File{nil, log, log}, Daemon: true})
	if err != nil {
		return m.daemonFailed(d, path, err)
	}
	m.mu.Lock()
	d.proc = p
	m.mu.Unlock()
	if err := m.awaitReady(ctx, first.pid, d); err != nil {
		return m.daemonFailed(d, path, err)
	}
	return nil
}

// firstProcess is a host's first process for as long as a request needs that process: the
// descriptor stays valid, even if the host dies meanwhile.
type firstProcess struct{ pid, pidfd int }

func (f firstProcess) closeFiles() { unix.Close(f.pidfd) }

func (m *machine) openFirstProcess() (firstProcess, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.init == nil {
		return firstProcess{}, m.offError()
	}
	fd, err := unix.FcntlInt(uintptr(m.pidfd), unix.F_DUPFD_CLOEXEC, 0)
	return firstProcess{m.init.Process.Pid, fd}, err
}

func (m *machine) daemonFailed(d *daemon, log string, err error) error {
	return fmt.Errorf("host %s: %s: %w%s", m.spec.Name, d.name, err, lastLines(log, 5))
}

// awaitReady looks at the kernel's socket tables, which have no event to wait for.
func (m *machine) awaitReady(ctx context.Context, pid int, d *daemon) error {
	for !m.readyNow(pid, d) {
		select {
		case <-d.proc.Done():
			return m.daemonEnded(d)
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

func (m *machine) readyNow(pid int, d *daemon) bool {
	if d.endsByItself() || !d.ready(pid) {
		return false
	}
	if d.check == nil {
		return true
	}
	_, err := m.runAsRoot(d.check...)
	return err == nil && d.isRunning()
}

func (m *machine) daemonEnded(d *daemon) error {
	if !d.endsByItself() || d.proc.Code() != 0 {
		return fmt.Errorf("ended with exit code %d", d.proc.Code())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d.done = true
	return nil
}

// makeRunDir makes the daemon's folder below /run, through the host's own root, where the names
// and owners are the host's.
func makeRunDir(pid int, d *daemon) error {
	if d.dir == "" {
		return nil
	}
	root := fmt.Sprintf("/proc/%d/root", pid)
	owner := passwd.User{}
	if d.user != "" {
		var err error
		if owner, err = passwd.Find(filepath.Join(root, "etc"), d.user); err != nil {
			return err
		}
	}
	dir := filepath.Join(root, "run", d.dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chown(dir, int(owner.UID), int(owner.GID))
}

// restartDaemon ends a daemon as an administrator's `systemctl restart` would, and starts it
// again.
func (m *machine) restartDaemon(ctx context.Context, name string) error {
	var names []string
	for _, d := range m.daemons {
		if d.endsByItself() {
			continue
		}
		if d.name != name {
			names = append(names, d.name)
			continue
		}
		if d.isRunning() {
			d.proc.Signal(unix.SIGTERM)
			if err := awaitSignal(ctx, d.proc.Done()); err != nil {
				return fmt.Errorf("host %s: %s does not end: %w", m.spec.Name, name, err)
			}
		}
		return m.startDaemon(ctx, d)
	}
	return fmt.Errorf("no daemon %q on host %s (daemons: %s)", name, m.spec.Name, strings.Join(names, " "))
}

// lastLines returns the last n lines of a file, for error messages.
func lastLines(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return "\n  " + strings.Join(lines[max(0, len(lines)-n):], "\n  ")
}

func readAll(f *os.File) string {
	data, err := io.ReadAll(f)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return string(data) + err.Error()
	}
	return string(data)
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
