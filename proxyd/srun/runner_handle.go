// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// Runner is an srun that runs, or did run, outside of its capsule. A Runner is safe for
// concurrent use.
type Runner struct {
	dir     string
	rec     record
	pidfd   *os.File    // of the runner; nil if the runner had ended when the handle was made
	removed atomic.Bool // Remove was called: the folder is being removed, or has been
}

// Adopt returns the srun in dir, whichever process started it; also an srun that has ended: Wait then tells its end.
// The error wraps fs.ErrNotExist if no srun was ever executed in dir.
func Adopt(dir string) (*Runner, error) {
	rec, err := readRecord(dir)
	if err != nil {
		return nil, fmt.Errorf("srun in %s: %w", dir, err)
	}
	return openRunner(dir, rec)
}

// Find returns the sruns that have their folders in parent, and passes over other entries of parent. The caller closes
// the Runners.
func Find(parent string) ([]*Runner, error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, err
	}
	var all []*Runner
	for _, e := range entries {
		r, err := Adopt(filepath.Join(parent, e.Name()))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err != nil {
			for _, r := range all {
				r.Close()
			}
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func openRunner(dir string, rec record) (*Runner, error) {
	r := &Runner{dir: dir, rec: rec}
	boot, err := procfs.BootID()
	if err != nil {
		return nil, err
	}
	if rec.Boot != boot {
		return r, nil
	}
	fd, err := unix.PidfdOpen(rec.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("srun %s: pidfd_open: %w", rec.Key, err)
	}
	// From here on the pidfd refers to one process; check that this is the runner.
	if !isStill(rec.PID, rec.Start) {
		unix.Close(fd)
		return r, nil
	}
	r.pidfd = os.NewFile(uintptr(fd), "pidfd")
	return r, nil
}

// Dir is the srun's folder.
func (r *Runner) Dir() string { return r.dir }

// Key is the key of the srun's step.
func (r *Runner) Key() string { return r.rec.Key }

// PID is the PID of the real srun, to be used while srun is known to run.
func (r *Runner) PID() int { return r.rec.Srun }

// Signal sends a signal to srun; SIGTSTP stops srun. After srun's end Signal does nothing.
func (r *Runner) Signal(ctx context.Context, sig syscall.Signal) error {
	return r.askRunner(ctx, fmt.Sprintf("signal %d", int(sig)))
}

// Quiet silences the runner: sing-srun is not told how srun ended, and srun is not ended when sing-srun goes. Quiet is
// for a step that has been captured: its wardens leave so that srun ends by itself. The caller calls Quiet before
// sing-srun goes.
func (r *Runner) Quiet(ctx context.Context) error { return r.askRunner(ctx, "quiet") }

// TakeAllOutput has sing-srun take in all output for a pipe or a socket that comes, however slow the
// reader is, until PaceOutput. Output that the reader has not taken is then in the memory of sing-srun.
func (r *Runner) TakeAllOutput(ctx context.Context) error { return r.askRunner(ctx, "output all") }

// PaceOutput has sing-srun take output only as its reader does, as before TakeAllOutput. It is
// harmless without TakeAllOutput.
func (r *Runner) PaceOutput(ctx context.Context) error { return r.askRunner(ctx, "output paced") }

// Kill ends srun by SIGKILL and returns when srun has ended. The step does not always end with
// srun: to end a step, signal SIGTERM.
func (r *Runner) Kill(ctx context.Context) error {
	if err := r.Signal(ctx, unix.SIGKILL); err != nil {
		if r.pidfd == nil {
			return err
		}
		// The runner does not answer. Without the runner srun dies too.
		if kill := r.signalRunner(); kill != nil {
			return errors.Join(err, kill)
		}
	}
	_, err := r.Wait(ctx)
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// Wait returns how srun ended, once srun has ended. The error wraps ErrGone if the status is not known. Wait may be
// called again, and after Adopt.
func (r *Runner) Wait(ctx context.Context) (syscall.WaitStatus, error) {
	if r.pidfd != nil {
		if err := waitPidfd(ctx, r.pidfd); err != nil {
			return 0, fmt.Errorf("srun %s: %w", r.rec.Key, err)
		}
	}
	how, err := readEnded(r.dir)
	if err != nil {
		return 0, fmt.Errorf("srun %s: %w", r.rec.Key, err)
	}
	return how, nil
}

// Ended tells whether Wait would return at once.
func (r *Runner) Ended() bool {
	if r.pidfd == nil || r.removed.Load() {
		return true
	}
	ended := false
	_ = localsock.WithDescriptor(r.pidfd, func(fd int) { ended = waits.IsReadable(fd) })
	return ended
}

// Remove ends srun if srun still runs, removes its folder and closes the handle.
func (r *Runner) Remove(ctx context.Context) error {
	if !r.Ended() {
		if err := r.Kill(ctx); err != nil {
			return err
		}
	}
	r.removed.Store(true)
	r.Close()
	return os.RemoveAll(r.dir)
}

// Close gives up the handle; srun runs on.
func (r *Runner) Close() {
	if r.pidfd != nil {
		r.pidfd.Close()
	}
}

func (r *Runner) signalRunner() error {
	return localsock.TryWithDescriptor(r.pidfd, func(fd int) error {
		err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return err
	})
}

// askRunner makes a request of the runner. A runner that has ended needs no request.
func (r *Runner) askRunner(ctx context.Context, request string) error {
	if r.Ended() {
		return nil
	}
	err := callRunner(ctx, r.dir, request)
	if err != nil && r.Ended() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("srun %s: %s: %w", r.rec.Key, request, err)
	}
	return nil
}

// waitPidfd returns nil when the process has ended. Each waiter has a descriptor of its own: a
// file has a single deadline, and a single reader at a time.
func waitPidfd(ctx context.Context, pidfd *os.File) error {
	fd, err := duplicateFile(pidfd)
	if err != nil {
		return err
	}
	mine := os.NewFile(uintptr(fd), "pidfd")
	defer mine.Close()
	raw, err := mine.SyscallConn()
	if err != nil {
		return err
	}
	defer localsock.InterruptAtEnd(ctx, mine.SetReadDeadline)()
	err = raw.Read(func(fd uintptr) bool { return waits.IsReadable(int(fd)) })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	return err
}
