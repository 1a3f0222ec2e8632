// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// record identifies the srun of a folder and its runner. It is written before srun runs.
type record struct {
	Boot  string // the kernel's boot ID
	Key   string
	PID   int    // of the runner
	Start uint64 // of the runner, ticks since boot
	Srun  int    // PID of srun
	Began uint64 // of srun, ticks since boot
}

func newRecord(key string, srun int) (record, error) {
	boot, err := procfs.BootID()
	if err != nil {
		return record{}, err
	}
	r := record{Boot: boot, Key: key, PID: os.Getpid(), Srun: srun}
	if r.Start, err = procfs.StartTime(r.PID); err != nil {
		return record{}, err
	}
	// srun is a child that we have not reaped, so its PID is not another process's, even if srun has ended already.
	r.Began, err = procfs.StartTime(r.Srun)
	return r, err
}

// write replaces the record. It does not sync, because the record is useless after a reboot.
func (r record) write(dir string) error {
	return durable.ReplaceJSON(filepath.Join(dir, recordName), r)
}

func readRecord(dir string) (r record, err error) {
	err = durable.ReadJSON(filepath.Join(dir, recordName), &r)
	return r, err
}

func writeEnded(dir string, how syscall.WaitStatus) error {
	return durable.ReplaceUnsynced(filepath.Join(dir, endedName), fmt.Appendf(nil, "%d\n", how))
}

func readEnded(dir string) (syscall.WaitStatus, error) {
	b, err := os.ReadFile(filepath.Join(dir, endedName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, ErrGone
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	return syscall.WaitStatus(n), err
}

// isStill tells whether a PID belongs to the process that was started at that time.
func isStill(pid int, start uint64) bool {
	now, err := procfs.StartTime(pid)
	return err == nil && now == start
}

func writeLaunchFailed(dir string) error {
	return durable.ReplaceUnsynced(filepath.Join(dir, launchName), nil)
}

// HasLaunchFailed tells whether the srun with a folder has reported that Slurm has not started all tasks of its step.
func HasLaunchFailed(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, launchName))
	return err == nil
}
