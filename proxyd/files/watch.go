// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Watched says what to watch.
type Watched struct {
	PID int // of the capsule's init
	// Trusted are our own static programs that run in capsules, as paths of the node: they
	// bypass the shim and write no files. The caller's own program is one.
	Trusted []string
}

// refresh is how often mounts are looked for that have come since (a mount of the node
// appears in the capsule), and processes that were started without the shim.
const refresh = 5 * time.Second

// Watch tells j which files programs write that bypass the shim: static ones, those of
// Go, set-id ones. It returns ctx's error, or nil when the capsule is gone.
//
// To be told of each file that is closed would cost every program a part of its time. So
// at first only the execution of programs is watched, of each program once; when one of
// them bypasses the shim, the capsule's own mounts are watched for files closed after
// writing, until the capsule goes. What such a program does in its first milliseconds
// can be missed, and so is what happens while nobody watches: when Watch begins, it looks
// at what runs and what that has open. The names that these programs remove, rename or
// make without writing are not seen; a file that was renamed after writing is found again
// by its inode, in its folder.
func Watch(ctx context.Context, what Watched, j *Journal) error {
	w, err := newWatcher(what, j)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is gone already
	}
	if err != nil {
		return fmt.Errorf("watch files: %w", err)
	}
	defer w.f.Close()
	stop := context.AfterFunc(ctx, func() { _ = w.f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = w.run(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errGone), err != nil && !w.isThere():
		return nil
	case err != nil:
		return fmt.Errorf("watch files: %w", err)
	}
	return nil
}

var errGone = errors.New("the capsule is gone")

type watcher struct {
	what   Watched
	j      *Journal
	fd     int
	f      *os.File
	ns     string // the mount namespace: another process may get the PID
	mounts string // as last read
	marked map[string]uint64
	armed  bool
	judged map[int]bool // processes that were looked at
	ours   map[[2]uint64]bool
}

func newWatcher(what Watched, j *Journal) (*watcher, error) {
	w := &watcher{what: what, j: j, marked: map[string]uint64{}, judged: map[int]bool{}, ours: map[[2]uint64]bool{}}
	for _, p := range append([]string{"/proc/self/exe"}, what.Trusted...) {
		var st unix.Stat_t
		if err := unix.Stat(p, &st); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		w.ours[[2]uint64{st.Dev, st.Ino}] = true
	}
	var err error
	if w.ns, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", what.PID)); err != nil {
		return nil, err
	}
	w.fd, err = unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|unix.FAN_UNLIMITED_MARKS,
		unix.O_RDONLY|unix.O_LARGEFILE|unix.O_CLOEXEC|unix.O_NOATIME)
	if err != nil {
		return nil, err
	}
	w.f = os.NewFile(uintptr(w.fd), "fanotify") // nonblocking: it can wait with a deadline
	return w, nil
}

func (w *watcher) run(ctx context.Context) error {
	if err := w.lookAround(); err != nil {
		return err
	}
	next := time.Now().Add(refresh)
	buf := make([]byte, 64<<10)
	for {
		if time.Now().After(next) {
			if err := w.again(); err != nil {
				return err
			}
			next = time.Now().Add(refresh)
		}
		if err := w.f.SetReadDeadline(next); err != nil {
			return err
		}
		if ctx.Err() != nil { // its deadline may have come before ours
			return ctx.Err()
		}
		n, err := w.f.Read(buf)
		if err == nil {
			err = w.events(buf[:n])
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

func (w *watcher) isThere() bool {
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", w.what.PID))
	return err == nil && ns == w.ns
}

// mark marks the capsule's mounts, as far as they are not marked as they should be.
func (w *watcher) mark() error {
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
		if w.armed && !belowAny(at, travelling) {
			mask |= unix.FAN_CLOSE_WRITE
		}
		if w.marked[id] == mask {
			continue
		}
		path := fmt.Sprintf("/proc/%d/root%s", w.what.PID, at)
		err := unix.FanotifyMark(w.fd, unix.FAN_MARK_ADD|unix.FAN_MARK_MOUNT, mask, unix.AT_FDCWD, path)
		if err != nil && at == "/" {
			return fmt.Errorf("mark: %w", err)
		}
		if err == nil { // else it is covered by another, or a file system that cannot
			w.marked[id] = mask
		}
	}
	w.mounts = string(b)
	return nil
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
	return unescape(f[4]), f[0] + " " + f[2], true
}

// unescape undoes what the kernel does to blanks in mountinfo.
func unescape(s string) string {
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

func (w *watcher) arm() error {
	if w.armed {
		return nil
	}
	w.armed = true
	w.mounts = ""
	return w.mark()
}

// events handles what one read has brought. Each descriptor in it is ours to close.
func (w *watcher) events(b []byte) error {
	const size = 24
	var errs []error
	var entries []Entry
	for len(b) >= size {
		n := int(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint64(b[8:])
		fd := int(int32(binary.NativeEndian.Uint32(b[16:])))
		if n < size || n > len(b) {
			return fmt.Errorf("event of %d bytes", n)
		}
		b = b[n:]
		if mask&unix.FAN_Q_OVERFLOW != 0 {
			errs = append(errs, w.j.lose())
		}
		if fd < 0 {
			continue
		}
		if mask&unix.FAN_OPEN_EXEC != 0 {
			errs = append(errs, w.executed(fd))
		}
		if mask&unix.FAN_CLOSE_WRITE != 0 {
			if e, ok := closedFile(fd); ok {
				entries = append(entries, e)
			}
		}
		unix.Close(fd)
	}
	return errors.Join(append(errs, w.j.Add(entries...))...)
}

// executed looks at a program that is being executed, unless it is known.
func (w *watcher) executed(fd int) error {
	if w.armed {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if !w.ours[[2]uint64{st.Dev, st.Ino}] && (st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 || bypasses(preader(fd))) {
		return w.arm()
	}
	// Not again, until it is written to. Without, it is only looked at each time.
	_ = unix.FanotifyMark(w.fd, unix.FAN_MARK_ADD|unix.FAN_MARK_IGNORED_MASK, unix.FAN_OPEN_EXEC, fd, "")
	return nil
}

type preader int

func (p preader) ReadAt(b []byte, off int64) (int, error) {
	n, err := readFull(int(p), b, off)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

func closedFile(fd int) (Entry, bool) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink == 0 {
		return Entry{}, false
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || strings.HasSuffix(path, " (deleted)") || !validPath(path) || belowAny(path, travelling) {
		return Entry{}, false
	}
	return Entry{Kind: Closed, Path: path, Ino: st.Ino}, true
}

// lookAround makes up for what happened before Watch began.
func (w *watcher) lookAround() error {
	if err := w.again(); err != nil {
		return err
	}
	pids, err := capsulePIDs(w.what.PID)
	if err != nil {
		return err
	}
	entries, err := Scan(pids)
	if err != nil {
		return err
	}
	return w.j.Add(entries...)
}

// again looks for new mounts, and for new processes without the shim: their parents may
// have cleared the environment.
func (w *watcher) again() error {
	if err := w.mark(); err != nil || w.armed {
		return err
	}
	pids, err := capsulePIDs(w.what.PID)
	if err != nil {
		return err
	}
	judged := map[int]bool{}
	for _, pid := range pids {
		judged[pid] = true
		if w.judged[pid] || !w.without(pid) {
			continue
		}
		if err := w.arm(); err != nil {
			return err
		}
		break
	}
	w.judged = judged
	return nil
}

// without says whether a process runs without the shim, and is none of ours.
func (w *watcher) without(pid int) bool {
	var st unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d/exe", pid), &st) != nil || w.ours[[2]uint64{st.Dev, st.Ino}] {
		return false
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	return err == nil && len(maps) > 0 && !strings.Contains(string(maps), "/libsingshim.so")
}

// capsulePIDs returns the processes in the PID namespace of init, as the caller counts.
func capsulePIDs(init int) ([]int, error) {
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init))
	if err != nil {
		return nil, errGone
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// Where we are not allowed to look (a kernel thread, the machine's own init), none
		// of the capsule's can be.
		if theirs, err := os.Readlink("/proc/" + e.Name() + "/ns/pid"); err == nil && theirs == ns {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
