// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
)

// Names in a device server's folder.
const (
	recordName  = "server.json"
	controlName = "control"
	logName     = "log"
	socketDir   = "socket"
	socketName  = "device"
)

// record is what a folder knows of its device server. It is written before anything of what it names is there, and again when
// there is a process.
type record struct {
	Boot   string `json:"boot"`             // of the kernel's run
	Cgroup string `json:"cgroup,omitempty"` // that is to be removed
	PID    int    `json:"pid,omitempty"`
	Start  uint64 `json:"start,omitempty"` // ticks since boot: with the PID, an identity
}

// writeRecord replaces the record. It does not sync, because the record is useless after a reboot.
func (r record) writeRecord(dir string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.ReplaceUnsynced(filepath.Join(dir, recordName), b)
}

// readRecord returns an empty record for a folder that has none: nothing was made then.
func readRecord(dir string) (r record, err error) {
	b, err := os.ReadFile(filepath.Join(dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", recordName, err)
	}
	return r, nil
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// startOf returns when a process was started, in ticks since boot.
func startOf(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The command name may hold anything; what follows its last parenthesis is the kernel's.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const startTime = 22 - 3 // of those after the name
	if len(fields) <= startTime {
		return 0, fmt.Errorf("/proc/%d/stat: too short", pid)
	}
	return strconv.ParseUint(string(fields[startTime]), 10, 64)
}

// openProcess opens the process of a record, or returns nil if it has ended.
func (r record) openProcess() (*os.File, error) {
	boot, err := bootID()
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
	// What the pidfd holds cannot change; what it holds must be the server.
	if start, err := startOf(r.PID); err != nil || start != r.Start {
		unix.Close(fd)
		return nil, nil //nolint:nilerr // it has ended since
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}
