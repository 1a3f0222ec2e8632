// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// markMounts has the kernel report what is wanted now of the capsule's mounts that it does not
// report yet.
func (w *watcher) markMounts() error {
	if !w.isThere() {
		return errGone
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", w.what.PID))
	if err != nil {
		return errGone
	}
	if string(b) == w.mounts {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		at, id, ok := mountPoint(line)
		if !ok {
			continue
		}
		mask := uint64(unix.FAN_OPEN_EXEC)
		if w.armed.Load() {
			mask = unix.FAN_CLOSE_WRITE
			if belowAny(at, travelling) {
				mask = 0
			}
		}
		if err := w.markMount(at, id, mask); err != nil && at == "/" {
			return fmt.Errorf("mark: %w", err)
		}
	}
	w.mounts = string(b)
	return nil
}

// markMount makes mask what the kernel reports of a mount. It fails for a mount that is covered
// by another, and for file systems that cannot report.
func (w *watcher) markMount(at, id string, mask uint64) error {
	had := w.marked[id]
	fd, err := openMountPoint(w.what.PID, at)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	for _, change := range []struct {
		flag uint
		mask uint64
	}{{unix.FAN_MARK_ADD, mask &^ had}, {unix.FAN_MARK_REMOVE, had &^ mask}} {
		if change.mask == 0 {
			continue
		}
		if err := unix.FanotifyMark(w.fd, change.flag|unix.FAN_MARK_MOUNT, change.mask, unix.AT_FDCWD, path); err != nil {
			return err
		}
	}
	w.marked[id] = mask
	return nil
}

// openMountPoint opens a mount point of a capsule, and no link: a container's mount points are below
// folders of the user, and the user may put a link in their place.
func openMountPoint(pid int, at string) (int, error) {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	return unix.Openat2(root, at, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	})
}

// mountPoint takes the place and the identity out of a line of mountinfo, if files can
// be there.
func mountPoint(line string) (at, id string, ok bool) {
	before, after, _ := strings.Cut(line, " - ")
	f := strings.Fields(before)
	kind, _, _ := strings.Cut(after, " ")
	if len(f) < 6 {
		return "", "", false
	}
	switch kind {
	case "proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "pstore", "autofs":
		return "", "", false
	}
	return unescapeMountPath(f[4]), f[0] + " " + f[2], true
}

// unescapeMountPath undoes what the kernel does to blanks in mountinfo.
func unescapeMountPath(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
