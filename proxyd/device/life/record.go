// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// Names in a device server's folder.
const (
	recordName  = "server.json"
	controlName = "control"
	logName     = "log"
	socketDir   = "socket"
	socketName  = "device"
)

// record is the content of server.json. The record is written before anything that it names exists, and again when
// the process exists.
type record struct {
	Boot   string `json:"boot"`             // the kernel's boot ID
	Cgroup string `json:"cgroup,omitempty"` // the cgroup that End removes
	PID    int    `json:"pid,omitempty"`
	Start  uint64 `json:"start,omitempty"`  // in ticks since boot; identifies the process together with PID
	Shared string `json:"shared,omitempty"` // of a tenant: the folder of the process's server
	Helper string `json:"helper,omitempty"`
}

// serverName names the process in errors.
func (r record) serverName() string {
	if r.Helper != "" {
		return "proxyd " + r.Helper
	}
	return "device server"
}

// writeRecord replaces the record. It does not sync, because the record is useless after a reboot.
func (r record) writeRecord(dir string) error {
	return durable.ReplaceJSON(filepath.Join(dir, recordName), r)
}

// readRecord returns an empty record for a folder without a record: Start stopped before it made anything
// else.
func readRecord(dir string) (r record, err error) {
	err = durable.ReadJSON(filepath.Join(dir, recordName), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	return r, err
}

// openProcess opens the process of a record, or returns nil if the process has ended.
func (r record) openProcess() (*os.File, error) {
	boot, err := procfs.BootID()
	if err != nil {
		return nil, err
	}
	if r.PID == 0 || r.Boot != boot {
		return nil, nil
	}
	fd, err := unix.PidfdOpen(r.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	// A pidfd never refers to another process, so the process that the pidfd refers to is compared with the
	// record.
	if start, err := procfs.StartTime(r.PID); err != nil || start != r.Start {
		unix.Close(fd)
		return nil, nil //nolint:nilerr // the process has ended since
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}
