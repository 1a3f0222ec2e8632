// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// Names in a capsule's folder.
const (
	recordName  = "capsule.json"
	controlName = "control"
	logName     = "init.log"
	hostsName   = "hosts"

	containersName = "containers"
)

// private are the folders that replace the node's in a capsule.
var private = []struct{ name, target string }{
	{"tmp", "/tmp"},
	{"var-tmp", "/var/tmp"},
}

// record describes a capsule in its folder. An init without a complete record has not started,
// and ends with its maker.
type record struct {
	ID       string // init answers with it, which proves that the socket is this capsule's
	Boot     string // the boot of the kernel
	PID      int    // of init; 0 before it exists
	Start    uint64 // of init, ticks since boot
	Hostname string
	Cgroups  string // Spec.Cgroups
}

var (
	// ErrStale means that the capsule is gone. Discard removes its remains.
	ErrStale = errors.New("capsule is gone")
	// ErrExists means that a folder has a capsule already.
	ErrExists = errors.New("folder has a capsule already")
)

func readRecord(dir string) (r record, err error) {
	err = durable.ReadJSON(filepath.Join(dir, recordName), &r)
	return r, err
}

// writeRecord replaces the record atomically. It does not sync, because the record is useless after a reboot.
func (r record) writeRecord(dir string) error {
	return durable.ReplaceJSON(filepath.Join(dir, recordName), r)
}

// findInit returns a pidfd of the init that r names, or an error wrapping ErrStale.
func (r record) findInit() (*pidfd, error) {
	boot, err := procfs.BootID()
	if err != nil {
		return nil, err
	}
	if r.PID == 0 || r.Boot != boot {
		return nil, ErrStale
	}
	init, err := openPidfd(r.PID)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, ErrStale
	}
	if err != nil {
		return nil, err
	}
	p, err := readStat(r.PID)
	if err != nil || p.start != r.Start || p.ended() {
		init.close()
		return nil, ErrStale
	}
	return init, nil
}

// prepareFolder creates the folder of a capsule, 0700 and root's, with its contents. Existing
// private folders keep their contents.
func prepareFolder(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("folder %q: want an absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, recordName)); !errors.Is(err, fs.ErrNotExist) {
		return ErrExists
	}
	for _, p := range private {
		path := filepath.Join(dir, p.name)
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Chmod(path, 0o777|fs.ModeSticky); err != nil {
			return err
		}
	}
	return makeEntry(filepath.Join(dir, containersName), true)
}

// listenControl creates the control socket. A peer may give any order, so access is protected three times: by the
// folder's mode, by the socket's mode, and by init's check of the peer.
func listenControl(dir string) (*os.File, error) {
	l, err := localsock.Listen(filepath.Join(dir, controlName), 0o600)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.File()
}
