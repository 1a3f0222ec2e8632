// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process finds a daemon of a host by its command line, as this machine counts.
func (c Cluster) Process(host string, command ...string) (int, error) {
	want := strings.Join(command, "\x00") + "\x00"
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range all {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || string(line) != want {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(dir, "root/etc/hostname"))
		conf, _ := os.ReadFile(filepath.Join(dir, "root/etc/slurm/slurm.conf"))
		if strings.TrimSpace(string(name)) == host && bytes.Contains(conf, []byte("ClusterName="+c.Name+"\n")) {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("no %s on %s", strings.Join(command, " "), host)
}

// Halt stops a process and returns when all of it stands still.
func Halt(ctx context.Context, pid int) error {
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return err
	}
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); f[0] == "T" {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}
