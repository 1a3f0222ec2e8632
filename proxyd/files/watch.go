// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// WatchedCapsule describes the capsule to watch.
type WatchedCapsule struct {
	PID int // of the capsule's init
	// PIDs returns the processes of the capsule's programs, as the caller counts.
	PIDs func() []int
	// Trusted are our own static programs that run in capsules, as paths of the node: they bypass
	// the shim and write no files. The caller's own program is trusted, too.
	Trusted []string
}

const (
	// refresh is how often Watch looks for new mounts (a mount of the node appears in the capsule), for processes that
	// were started without the shim, and for files that these processes have open.
	refresh = 2 * time.Second
	// gather is how often the kernel is asked once it reports files. To be woken by each file
	// would cost the program that closes the file more than all the rest, and the kernel merges
	// reports about the same file and process. Its queue has room for 16384.
	gather = 50 * time.Millisecond
)

// Watch tells j which files programs write that bypass the shim: static programs, those of Go, set-id programs. Watch
// returns ctx's error, or nil when the capsule has ended. No program waits for Watch: the kernel reports after the
// event, and does not wait for an answer. There is at most a single Watch for a ChangeList at a time.
//
// A report of each file that is closed would cost every program a part of its time. So at first only the execution of
// programs is watched, of each program once; when a program bypasses the shim, the capsule's own mounts are watched for
// files closed after writing, until the capsule ends, and later mounts from their beginning. Changes in the first
// milliseconds of such a program can be missed, and changes while no Watch runs are missed: then, and when the kernel's
// queue of reports has overflowed, the change list notes that the list is not complete. The names that these programs
// remove, rename or make without writing are not seen; a file that was renamed after writing is found again in its
// folder.
func Watch(ctx context.Context, what WatchedCapsule, j *ChangeList) error {
	w, err := newWatcher(what, j)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the capsule has ended already
	}
	if err != nil {
		if ever, _ := j.hadBypass(); ever {
			j.markIncomplete()
		}
		return fmt.Errorf("watch files: %w", err)
	}
	defer w.closeWatch()
	j.setWatcher(w)
	defer j.setWatcher(nil)
	stop := context.AfterFunc(ctx, func() { _ = w.f.SetReadDeadline(longAgo) })
	defer stop()
	err = w.watchEvents(ctx)
	switch {
	case ctx.Err() != nil:
		return errors.Join(ctx.Err(), w.drainEvents())
	case errors.Is(err, errGone), !w.isThere():
		return nil
	case w.armed.Load():
		j.markIncomplete()
	}
	return fmt.Errorf("watch files: %w", err)
}

// ErrNoFanotify is wrapped by Watch's error where this process may not watch, or the kernel
// cannot.
var ErrNoFanotify = errors.New("not permitted, or not in this kernel")

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

var errGone = errors.New("the capsule is gone")

type watcher struct {
	what   WatchedCapsule
	j      *ChangeList
	f      *os.File // to wait for events; closed once the kernel reports files
	raw    syscall.RawConn
	ns     string // the mount namespace: another process may get the PID
	judged map[int]judgement
	ours   map[[2]uint64]bool

	armed  atomic.Bool // the kernel reports files
	sudden atomic.Bool // files are to be marked

	marking sync.Mutex // held while mounts are marked, and for the fields below
	mounts  string     // as last read
	points  map[uint64]string

	mu  sync.Mutex // held while events are taken, and for the fields below; taken before marking
	fd  int        // -1: closed; written under both locks
	buf []byte
}

// judgement says whether a process runs without the shim.
type judgement struct {
	exe         [2]uint64
	withoutShim bool
}

func newWatcher(what WatchedCapsule, j *ChangeList) (*watcher, error) {
	w := &watcher{
		what: what, j: j, points: map[uint64]string{}, judged: map[int]judgement{}, ours: map[[2]uint64]bool{}, buf: make([]byte, 64<<10),
	}
	for _, p := range append([]string{"/proc/self/exe"}, what.Trusted...) {
		var st unix.Stat_t
		if err := unix.Stat(p, &st); err != nil {
			return nil, fmt.Errorf("%s: %s", p, err.Error()) // a file of ours is missing, not the capsule
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
		if err == unix.EPERM || err == unix.ENOSYS { //nolint:errorlint // x/sys returns the plain errno
			err = ErrNoFanotify
		}
		return nil, fmt.Errorf("fanotify: %w", err)
	}
	waits, err := unix.FcntlInt(uintptr(w.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		w.f = os.NewFile(uintptr(waits), "fanotify") // nonblocking, so that a read can have a deadline
		w.raw, err = w.f.SyscallConn()
	}
	if err != nil {
		unix.Close(w.fd)
		return nil, err
	}
	return w, nil
}

func (w *watcher) closeWatch() {
	w.f.Close() // perhaps again
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marking.Lock()
	defer w.marking.Unlock()
	unix.Close(w.fd)
	w.fd = -1
}

func (w *watcher) watchEvents(ctx context.Context) error {
	if err := w.recordEarlierChanges(); err != nil {
		return err
	}
	next := time.Now().Add(refresh)
	for {
		if w.sudden.Load() || time.Now().After(next) {
			if err := w.scanProcesses(); err != nil {
				return err
			}
			next = time.Now().Add(refresh)
		}
		err := ctx.Err()
		switch {
		case err != nil:
		case w.armed.Load():
			// Only until next: mounts and processes have to be scanned again then.
			for more := true; more && err == nil && ctx.Err() == nil && time.Now().Before(next); {
				more, err = w.readEvents()
			}
			if err == nil {
				select {
				case <-time.After(gather):
				case <-ctx.Done():
				}
			}
		default:
			err = w.waitForEvents(ctx, next)
		}
		if err != nil {
			return err
		}
	}
}

// waitForEvents takes events when there are some, until a time.
func (w *watcher) waitForEvents(ctx context.Context, until time.Time) error {
	if err := w.f.SetReadDeadline(until); err != nil {
		if w.armed.Load() {
			return nil // w.f is closed; the error of a closed file is none that package os exports
		}
		return err
	}
	if err := ctx.Err(); err != nil || w.sudden.Load() { // their deadline may have come before ours
		return err
	}
	var failed error
	err := w.raw.Read(func(uintptr) bool {
		var took bool
		took, failed = w.readEvents()
		return took || failed != nil
	})
	if errors.Is(err, os.ErrDeadlineExceeded) || w.armed.Load() {
		err = nil
	}
	return errors.Join(failed, err)
}

func (w *watcher) isThere() bool {
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", w.what.PID))
	return err == nil && ns == w.ns
}

// recordEarlierChanges records the changes before Watch began, as far as they can still be seen.
func (w *watcher) recordEarlierChanges() error {
	ever, unwatched := w.j.hadBypass()
	if unwatched {
		w.j.markIncomplete()
	}
	if ever {
		if err := w.markFiles(); err != nil {
			return err
		}
	}
	return w.scanProcesses()
}

// scanProcesses looks for new mounts, for processes without the shim (their parents may have cleared the environment),
// and for files that these processes have open: the node may die before they close a file.
func (w *watcher) scanProcesses() error {
	if w.sudden.Swap(false) {
		if err := w.markFiles(); err != nil {
			return err
		}
	}
	w.marking.Lock()
	err := w.markMounts()
	w.marking.Unlock()
	if err != nil {
		return err
	}
	var withoutShim []int
	judged := map[int]judgement{}
	for _, pid := range w.what.PIDs() {
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/exe", pid), &st) != nil {
			continue
		}
		exe := [2]uint64{st.Dev, st.Ino}
		judge, ok := w.judged[pid]
		if !ok || judge.exe != exe {
			judge = judgement{exe, !w.ours[exe] && runsWithoutShim(pid, st.Mode)}
		}
		judged[pid] = judge
		if judge.withoutShim {
			withoutShim = append(withoutShim, pid)
		}
	}
	w.judged = judged
	if len(withoutShim) == 0 {
		return nil
	}
	if err := w.markFiles(); err != nil {
		return err
	}
	return w.addOpenFiles(withoutShim)
}

// addOpenFiles adds the files that processes have open.
func (w *watcher) addOpenFiles(pids []int) error {
	entries, err := Scan(pids)
	if err != nil {
		return err
	}
	for i := range entries {
		if entries[i].Kind != Appended { // which would say that the file was there before
			entries[i].Kind = Closed
		}
	}
	return w.j.Add(entries...)
}

// drainEvents takes all events that the kernel has.
func (w *watcher) drainEvents() error {
	for {
		took, err := w.readEvents()
		if !took || err != nil {
			return err
		}
		if w.sudden.Load() {
			_ = w.f.SetReadDeadline(longAgo) // watchEvents is to call scanProcesses
		}
	}
}

// readEvents reads events and handles them, if there are any.
func (w *watcher) readEvents() (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd < 0 {
		return false, nil
	}
	n, err := unix.Read(w.fd, w.buf)
	switch err { //nolint:errorlint // x/sys returns the plain errno
	case nil:
		return n > 0, w.handleEvents(w.buf[:n])
	case unix.EAGAIN:
		return false, nil
	case unix.EINTR:
		return true, nil
	case unix.EBADF, unix.EINVAL, unix.EFAULT:
		return false, err
	}
	// The file of an event could not be opened: it is on a file server that does not trust root. The event is gone.
	if w.armed.Load() {
		w.j.markIncomplete()
		return true, nil
	}
	w.sudden.Store(true)
	return true, nil
}

// handleEvents handles the events of a read, and closes each descriptor in them.
func (w *watcher) handleEvents(b []byte) error {
	const size = 24
	var entries []Entry
	for len(b) >= size {
		n := int(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint64(b[8:])
		fd := int(int32(binary.NativeEndian.Uint32(b[16:])))
		if n < size || n > len(b) {
			return fmt.Errorf("event of %d bytes", n)
		}
		b = b[n:]
		switch {
		case mask&unix.FAN_Q_OVERFLOW == 0:
		case w.armed.Load():
			w.j.markIncomplete()
		default:
			w.sudden.Store(true) // it is not known which programs were executed
		}
		if fd < 0 {
			continue
		}
		if mask&unix.FAN_OPEN_EXEC != 0 {
			w.checkExecuted(fd)
		}
		if mask&unix.FAN_CLOSE_WRITE != 0 {
			if e, ok := w.closedFile(fd); ok {
				entries = append(entries, e)
			}
		}
		unix.Close(fd)
	}
	return w.j.Add(entries...)
}
