// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// runsWithoutShim says whether a process runs without the shim. A process that begins has the shim in its
// environment, and not yet in its memory.
func runsWithoutShim(pid int, mode uint32) bool {
	dir := fmt.Sprintf("/proc/%d/", pid)
	if !lacksShim(dir + "maps") {
		return false
	}
	f, err := os.Open(dir + "exe")
	if err != nil {
		return false
	}
	defer f.Close()
	if mode&(unix.S_ISUID|unix.S_ISGID) != 0 || bypassesShim(f) {
		return true
	}
	env, err := procfs.Environ(pid)
	return err == nil && !strings.Contains(string(env), shimFile)
}

// lacksShim says whether a process has memory, and the shim is not in it, by a file of /proc.
func lacksShim(maps string) bool {
	f, err := os.Open(maps)
	if err != nil {
		return false
	}
	defer f.Close()
	some := false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.Contains(lines.Text(), shimFile) {
			return false
		}
		some = true
	}
	return some && lines.Err() == nil
}

const shimFile = "/libsingshim.so"

// checkExecuted looks at a program that is being executed, unless the program is known.
func (w *watcher) checkExecuted(fd int) {
	var st unix.Stat_t
	if w.armed.Load() || w.sudden.Load() || unix.Fstat(fd, &st) != nil {
		return
	}
	if !w.ours[[2]uint64{st.Dev, st.Ino}] && (st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 || bypassesShim(preader(fd))) {
		w.sudden.Store(true)
		return
	}
	// The kernel is not to report this file again until the file is written to. Without this mark the file is only checked
	// each time.
	_ = unix.FanotifyMark(w.fd, unix.FAN_MARK_ADD|unix.FAN_MARK_IGNORED_MASK, unix.FAN_OPEN_EXEC, fd, "")
}

type preader int

func (p preader) ReadAt(b []byte, off int64) (int, error) {
	n, err := readFull(int(p), b, off)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}
