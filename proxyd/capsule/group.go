// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// group is the folder of a program's cgroup. The folder lies below the warden's, so that Slurm's
// limits and accounting apply, and belongs to root, so that a process of another user cannot leave.
type group string

// makeGroup makes the folder name below parent.
func makeGroup(parent, name string) (group, error) {
	g := group(filepath.Join(parent, name))
	if err := os.Mkdir(string(g), 0o755); err != nil {
		return "", err
	}
	// Kernels before 5.14 cannot kill a group as a whole; then programs get no group.
	if _, err := os.Stat(g.filePath("cgroup.kill")); err != nil {
		return "", errors.Join(err, os.Remove(string(g)))
	}
	return g, nil
}

func (g group) filePath(name string) string { return filepath.Join(string(g), name) }

// writeFile writes to a file of the group. The error isGone if the group has been removed.
func (g group) writeFile(file, value string) error {
	f, err := os.OpenFile(g.filePath(file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

// addProcesses moves processes into the group.
func (g group) addProcesses(pids ...int) error {
	for _, pid := range pids {
		if err := g.writeFile("cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("PID %d: %w", pid, err)
		}
	}
	return nil
}

// killProcesses kills all processes in the group, frozen or not, also new ones.
func (g group) killProcesses() error { return g.writeFile("cgroup.kill", "1") }

func (g group) freeze() error { return g.writeFile("cgroup.freeze", "1") }
func (g group) thaw() error   { return g.writeFile("cgroup.freeze", "0") }

// frozen tells whether the group is frozen or about to be.
func (g group) frozen() bool {
	b, err := os.ReadFile(g.filePath("cgroup.freeze"))
	return err == nil && strings.TrimSpace(string(b)) == "1"
}

// hasState tells whether a thread of the group is in a state, by the letter of proc(5).
func (g group) hasState(state byte) bool {
	b, err := os.ReadFile(g.filePath("cgroup.threads"))
	if err != nil {
		return false
	}
	for field := range strings.FieldsSeq(string(b)) {
		if tid, err := strconv.Atoi(field); err == nil {
			if p, err := readStat(tid); err == nil && p.state == state {
				return true
			}
		}
	}
	return false
}

// clearAndRemove kills the processes in the group, waits for their death, and removes the group. A missing
// group is no error.
func (g group) clearAndRemove(ctx context.Context) error {
	err := g.killProcesses()
	if err == nil {
		err = waits.WaitForCgroupEvent(ctx, string(g), "populated 0")
	}
	if err == nil {
		err = g.removeTree()
	}
	if isGone(err) {
		return nil
	}
	return err
}

// removeTree removes the group and the groups below: programs of root's can make some.
func (g group) removeTree() error {
	entries, err := os.ReadDir(string(g))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := group(g.filePath(e.Name())).removeTree(); err != nil && !isGone(err) {
				return err
			}
		}
	}
	return os.Remove(string(g))
}

// isGone tells whether err means that a group does not exist any more.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
