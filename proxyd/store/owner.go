// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// ThisProcess names this process so that another process on the same node can tell whether it is
// gone: "BOOT/PIDNS/PID/START".
func ThisProcess() (string, error) {
	here, err := pidSpace()
	if err != nil {
		return "", fmt.Errorf("owner: %w", err)
	}
	start, err := procfs.StartTime(os.Getpid())
	if err != nil {
		return "", fmt.Errorf("owner: %w", err)
	}
	return fmt.Sprintf("%s/%d/%d", here, os.Getpid(), start), nil
}

// ProcessGone tells whether an owner named by ThisProcess has certainly ended: it was a process of this PID namespace
// since the last boot, and is gone.
func ProcessGone(owner string) bool {
	parts := strings.Split(owner, "/")
	if len(parts) != 4 {
		return false
	}
	here, err := pidSpace()
	if err != nil || here != parts[0]+"/"+parts[1] {
		return false
	}
	pid, err := strconv.Atoi(parts[2])
	if err != nil {
		return false
	}
	start, err := procfs.StartTime(pid)
	if os.IsNotExist(err) {
		return true
	}
	return err == nil && strconv.FormatUint(start, 10) != parts[3]
}

// pidSpace names the space in which a PID is unique: this boot and PID namespace.
func pidSpace() (string, error) {
	boot, err := procfs.BootID()
	if err != nil {
		return "", err
	}
	ns, err := os.Readlink("/proc/self/ns/pid")
	return boot + "/" + ns, err
}
