// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ThisProcess names this process so that another process on the same node can tell whether it is
// gone: "BOOT/PIDNS/PID/START".
func ThisProcess() (string, error) {
	here, err := pidSpace()
	if err != nil {
		return "", fmt.Errorf("owner: %w", err)
	}
	start, err := startTime(os.Getpid())
	if err != nil {
		return "", fmt.Errorf("owner: %w", err)
	}
	return fmt.Sprintf("%s/%d/%s", here, os.Getpid(), start), nil
}

// ProcessGone tells whether an owner named by ThisProcess was certainly a process of this PID
// namespace since the last boot, and has ended.
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
	start, err := startTime(pid)
	if os.IsNotExist(err) {
		return true
	}
	return err == nil && start != parts[3]
}

// pidSpace names the space in which a PID is unique: this boot and PID namespace.
func pidSpace() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	ns, err := os.Readlink("/proc/self/ns/pid")
	return string(bytes.TrimSpace(boot)) + "/" + ns, err
}

// startTime is field 22 of /proc/PID/stat. The second field may hold spaces and
// parentheses, hence the search from the end.
func startTime(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	return string(fields[19]), nil
}
