// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// markFiles has the kernel report closed files from now on, instead of executed programs.
func (w *watcher) markFiles() error {
	armed, err := w.armMarks()
	if !armed {
		return err
	}
	w.j.recordBypass()
	return errors.Join(w.f.Close(), err)
}

// armMarks marks the mounts for reports of files, unless they are marked so already.
func (w *watcher) armMarks() (armed bool, err error) {
	w.marking.Lock()
	defer w.marking.Unlock()
	if w.armed.Load() {
		return false, nil
	}
	w.armed.Store(true)
	w.mounts = ""
	return true, w.markMounts()
}

// markNewMounts has the kernel report closed files, also on mounts that are as new as this call.
func (w *watcher) markNewMounts() error {
	if err := w.markFiles(); err != nil {
		return err
	}
	w.marking.Lock()
	defer w.marking.Unlock()
	w.mounts = "" // a mount that is gone and a new one may look alike
	return w.markMounts()
}

// markMounts has the kernel report the wanted events of the capsule's mounts, if these have changed since the last
// call. Caller holds w.marking.
func (w *watcher) markMounts() error {
	if w.fd < 0 || !w.isThere() {
		return errGone
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", w.what.PID))
	if err != nil {
		return errGone
	}
	if string(b) == w.mounts {
		return nil
	}
	if len(w.points) > maxPoints {
		clear(w.points)
	}
	for line := range strings.Lines(string(b)) {
		at, id, ok := mountPoint(line)
		if !ok {
			continue
		}
		w.points[id] = at
		mask := uint64(unix.FAN_OPEN_EXEC)
		if w.armed.Load() {
			mask = unix.FAN_CLOSE_WRITE
			if belowAny(at, travelling) {
				mask = 0
			}
		}
		if err := w.markMount(at, mask); err != nil && at == "/" {
			return fmt.Errorf("mark: %w", err)
		}
	}
	w.mounts = string(b)
	return nil
}

// closedFile returns the entry of a file that was closed after writing; fd is from the kernel's report.
func (w *watcher) closedFile(fd int) (Entry, bool) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, identityMask|unix.STATX_MNT_ID, &st)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink == 0 {
		return Entry{}, false
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || strings.HasSuffix(path, " (deleted)") {
		return Entry{}, false
	}
	if st.Mask&unix.STATX_MNT_ID != 0 {
		path = w.pathIn(st.Mnt_id, path)
	}
	if !validPath(path) || belowAny(path, travelling) {
		return Entry{}, false
	}
	return Entry{Kind: Closed, Path: path, ID: fileIdentity(&st)}, true
}

// maxPoints bounds how many mounts are remembered, also after they are gone. The kernel gives their numbers to later
// mounts.
const maxPoints = 1 << 16

// pathIn returns the path in the capsule of a file that was reported for a mount. When the mount is gone, because its
// container has ended, for example, the kernel shows only the path within the mount.
func (w *watcher) pathIn(mount uint64, path string) string {
	w.marking.Lock()
	defer w.marking.Unlock()
	at, known := w.points[mount]
	if !known || at == "/" || path == at || strings.HasPrefix(path, at+"/") {
		return path
	}
	return filepath.Join(at, path)
}

// markMount sets the events that the kernel reports of a mount to mask. It fails for a mount that is covered by
// another, and for file systems that cannot report. The mask is set even if it seems unchanged, because a new mount may
// have the number of a mount that is gone.
func (w *watcher) markMount(at string, mask uint64) error {
	fd, err := openMountPoint(w.what.PID, at)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	if mask != unix.FAN_OPEN_EXEC {
		// An error means that there was no mark.
		_ = unix.FanotifyMark(w.fd, unix.FAN_MARK_REMOVE|unix.FAN_MARK_MOUNT, unix.FAN_OPEN_EXEC, unix.AT_FDCWD, path)
	}
	if mask == 0 {
		return nil
	}
	return unix.FanotifyMark(w.fd, unix.FAN_MARK_ADD|unix.FAN_MARK_MOUNT, mask, unix.AT_FDCWD, path)
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

// mountPoint takes the place and the number out of a line of mountinfo, if files can
// be there.
func mountPoint(line string) (at string, id uint64, ok bool) {
	before, after, _ := strings.Cut(line, " - ")
	f := strings.Split(before, " ") // the kernel escapes spaces in names, and no other character that Unicode takes for one
	kind, _, _ := strings.Cut(after, " ")
	if len(f) < 6 {
		return "", 0, false
	}
	switch kind {
	case "proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "pstore", "autofs":
		return "", 0, false
	}
	id, err := strconv.ParseUint(f[0], 10, 64)
	return unescapeMountPath(f[4]), id, err == nil
}

// unescapeMountPath replaces the octal escapes by which the kernel writes blanks in mountinfo.
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
