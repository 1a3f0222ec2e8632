// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// A pseudo terminal has two sides: a program opens ptmx, and its children have /dev/pts/N. CRIU
// captures both sides or none, and restores the number N, which works only if no other program
// uses that number.

// terminals are the pseudo terminals of which a program holds the ptmx side.
type terminals struct {
	device uint64 // of the capsule's /dev/pts
	driven map[string]bool
}

// readTerminals finds the terminals of a program by its processes, in the capsule with this init. PIDs are of this
// daemon's namespace. When ctx ends, the terminals found so far are returned.
func readTerminals(ctx context.Context, init int, pids []int) terminals {
	t := terminals{driven: map[string]bool{}}
	var st syscall.Stat_t
	if err := syscall.Stat(fmt.Sprintf("/proc/%d/root/dev/pts", init), &st); err == nil {
		t.device = st.Dev
	}
	for _, pid := range pids {
		err := visitDescriptors(ctx, pid, func(d procfs.Descriptor) bool {
			link, err := d.Link()
			if err != nil || filepath.Base(link) != "ptmx" {
				return true
			}
			if n := terminalNumber(d.InfoPath()); n != "" {
				t.driven["/dev/pts/"+n] = true
			}
			return true
		})
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			continue // the process has too many descriptors, and is not captured
		}
	}
	return t
}

// isOwn tells whether a descriptor is a side of a terminal that the program itself drives.
func (t terminals) isOwn(descriptor, link string) bool {
	if link == "/dev/pts/ptmx" {
		return true
	}
	if !t.driven[link] {
		return false
	}
	st, err := mounts.Stat(descriptor) // a user's own file may have such a link
	return err == nil && st.Device == t.device
}

// terminalNumber returns the number of the terminal that an open ptmx drives; "" if none.
func terminalNumber(fdinfo string) string {
	b, err := os.ReadFile(fdinfo)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(line, "tty-index:"); ok {
			return strings.TrimSpace(n)
		}
	}
	return ""
}
