// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package state is the place of a named cluster on the host's disk, and the owner of that place. A
// cluster runs exactly as long as its lock is held: the lock is an flock on an open file that `up`
// hands to the keeper, so the kernel releases the lock when the last process with the file ends,
// for any reason.
//
//	/var/lib/minicluster/
//	  NAME.lock       flock: held while the cluster is raised or runs; holds the keeper's PID
//	  NAME/
//	    control.sock  the keeper listens here
//	    keeper.log    the keeper's log
//	    logs/HOST/    a file per daemon
//	    shared/       the folder that every host sees as /shared
//	    mnt/          mount points; empty outside the keeper's mount namespace
package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Base is the folder that holds every cluster of this machine.
const Base = "/var/lib/minicluster"

// ErrRunning is returned by Take when the cluster is running or being raised.
var ErrRunning = errors.New("already running")

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// Folder is a cluster's folder. The zero value is not usable; see At.
type Folder struct {
	Name string
	base string
}

// At returns the folder of the cluster called name. At touches no disk. The error for a name that
// Slurm or a host name could not carry says which names are accepted.
func At(name string) (Folder, error) { return placeAt(Base, name) }

func placeAt(base, name string) (Folder, error) {
	if !nameForm.MatchString(name) {
		return Folder{}, fmt.Errorf("cluster name %q: want a lower-case letter, then up to 30 letters, digits or '-'", name)
	}
	return Folder{Name: name, base: base}, nil
}

// Dir is the cluster's folder.
func (p Folder) Dir() string { return filepath.Join(p.base, p.Name) }

// Control is the path of the keeper's socket.
func (p Folder) Control() string { return filepath.Join(p.Dir(), "control.sock") }

// KeeperLog is where the keeper's own output goes.
func (p Folder) KeeperLog() string { return filepath.Join(p.Dir(), "keeper.log") }

// Logs is the folder of a host's daemon logs.
func (p Folder) Logs(host string) string { return filepath.Join(p.Dir(), "logs", host) }

// Shared is the folder that all hosts see as /shared.
func (p Folder) Shared() string { return filepath.Join(p.Dir(), "shared") }

// Mounts is the folder under which the keeper mounts; processes outside its mount namespace see an
// empty folder.
func (p Folder) Mounts() string { return filepath.Join(p.Dir(), "mnt") }

func (p Folder) lockPath() string { return p.Dir() + ".lock" }

// Running says whether some process holds the cluster's lock.
func (p Folder) Running() bool {
	f, err := os.Open(p.lockPath())
	if err != nil {
		return false
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	return errors.Is(err, unix.EWOULDBLOCK)
}

// SetKeeper notes the keeper's PID in the lock, for commands that find no socket.
func SetKeeper(lock *os.File, pid int) error {
	_, err := lock.WriteAt([]byte(strconv.Itoa(pid)), 0)
	return err
}

// Keeper returns the PID that SetKeeper noted, or 0.
func (p Folder) Keeper() int {
	data, err := os.ReadFile(p.lockPath())
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(string(data)) // 0 when no PID is noted yet
	return pid
}

// Left says whether anything of the cluster is on disk, running or not.
func (p Folder) Left() bool {
	_, err := os.Lstat(p.Dir())
	return err == nil
}

// Take takes the lock and returns the file that holds the lock; the caller, or a process that
// inherits the file, owns the cluster until the file is closed. Take returns an error wrapping
// ErrRunning while another process owns the cluster.
func (p Folder) Take() (*os.File, error) {
	// For root alone: files that root on a host leaves in /shared are not for other users.
	if err := os.MkdirAll(p.base, 0o700); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", p.Name, err)
	}
	for {
		f, err := os.OpenFile(p.lockPath(), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", p.Name, err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			return nil, fmt.Errorf("cluster %s is %w", p.Name, ErrRunning)
		}
		// Remove may have unlinked the path between our open and our lock; then we hold a lock
		// that no other process can see.
		if sameFile(f, p.lockPath()) {
			return f, f.Truncate(0) // a dead keeper's PID
		}
		f.Close()
	}
}

// Clean makes the folder new and empty, also if a dead predecessor left files there. The caller
// owns the cluster.
func (p Folder) Clean() error {
	if err := os.RemoveAll(p.Dir()); err != nil {
		return fmt.Errorf("cluster %s: clean up: %w", p.Name, err)
	}
	for _, d := range []string{p.Dir(), p.Mounts(), p.Shared(), filepath.Dir(p.Logs("x"))} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("cluster %s: %w", p.Name, err)
		}
	}
	return nil
}

// Remove deletes the folder and the lock. The caller owns the cluster and closes
// the lock afterwards.
func (p Folder) Remove() error {
	if err := os.RemoveAll(p.Dir()); err != nil {
		return fmt.Errorf("cluster %s: clean up: %w", p.Name, err)
	}
	if err := os.Remove(p.lockPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cluster %s: clean up: %w", p.Name, err)
	}
	return nil
}

// Names lists the clusters that are running now.
func Names() []string { return clusterNames(Base) }

func clusterNames(base string) []string {
	locks, _ := filepath.Glob(filepath.Join(base, "*.lock"))
	var out []string
	for _, l := range locks {
		p, err := placeAt(base, strings.TrimSuffix(filepath.Base(l), ".lock"))
		if err == nil && p.Running() {
			out = append(out, p.Name)
		}
	}
	return out
}

func sameFile(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}
