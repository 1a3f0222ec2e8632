// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/checkpoint-restore/go-criu/v7/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/pstree"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/tty"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// A process has the terminal of its session because its parent had that terminal when it made the process; only the
// first process of a session can take the terminal by itself. CRIU makes all processes, and only then opens the
// terminals and has the first process of each session take its own: a shell within a shell would have none. So at a
// restore
//
//   - this process makes the terminals before criu starts, and criu inherits them by names that stand for their ptmx;
//   - libsingshim-criu.so, in criu, has the first process of each session take the terminal when that process begins
//     the session, and its later children have the terminal (libsingshim/shim/criu_terminals.c).

// madeTerminal is a terminal of an image, which a restore makes.
type madeTerminal struct {
	path    string // of its ptmx
	entry   uint32 // the number of the path in files.img
	flags   int    // of open(2)
	number  int
	session int // 0: no session has the terminal
	size    *unix.Winsize
}

const (
	terminalsName  = "tty-info.img"
	terminalsMagic = 0x59453036 // criu/include/magic.h

	// maxTerminals bounds the numbers of terminals (MAX_PTY_INDEX in criu/tty.c).
	maxTerminals = 1000

	// Variables for libsingshim-criu.so.
	sessionsVariable = "SINGULARITY_SESSIONS"
	detachedVariable = "SINGULARITY_DETACHED"
)

// making is held, for a capsule by its init, while the capsule's terminals are made: programs of a capsule that are
// restored side by side need certain numbers of the same file system, and each open takes the lowest number that is
// free.
var making capsuleLocks

// capsuleLocks are locks of capsules. No capsule waits for another capsule: the file server of that capsule's user may
// hang.
type capsuleLocks struct {
	mu    sync.Mutex
	locks map[int]*capsuleLock
}

type capsuleLock struct {
	sync.Mutex

	users int // that hold it or wait
}

// lock locks a capsule, and returns the function that unlocks it.
func (c *capsuleLocks) lock(init int) (unlock func()) {
	c.mu.Lock()
	if c.locks == nil {
		c.locks = map[int]*capsuleLock{}
	}
	l := c.locks[init]
	if l == nil {
		l = &capsuleLock{}
		c.locks[init] = l
	}
	l.users++
	c.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		c.mu.Lock()
		defer c.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(c.locks, init)
		}
	}
}

// handTerminals makes the terminals of the image, and adds them to the files that c inherits; the caller closes them.
func (r *restorer) handTerminals(_ context.Context, c *command) ([]*os.File, error) {
	all, err := readTerminals(r.source)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	root, err := os.Open(fmt.Sprintf("/proc/%d/root", r.init))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	table, err := mounts.Of(r.init)
	if err != nil {
		return nil, err
	}
	// A user's server may not answer, and this is the daemon.
	if slices.ContainsFunc(all, func(t madeTerminal) bool { return table.IsServedByUser(t.path) }) {
		return nil, errors.New("a terminal's path is on a file system that a user serves")
	}
	var made []*os.File
	r.terminals = map[uint32]string{}
	makeAll := func() {
		defer making.lock(r.init)()
		for _, t := range all {
			var sides []*os.File
			if sides, err = t.openBelow(root); err != nil {
				err = fmt.Errorf("terminal %s: %w", t.childPath(), err)
				return
			}
			made = append(made, sides...)
		}
	}
	if c.as == nil {
		makeAll()
	} else if failed := c.as.onThread(makeAll); failed != nil {
		err = failed
	}
	if err == nil {
		err = r.nameSessions(c, all)
	}
	if err != nil {
		localsock.CloseAll(made)
		return nil, err
	}
	for i, t := range all {
		r.terminals[t.entry] = t.handedName()
		c.args = append(c.args, "--inherit-fd", fmt.Sprintf("fd[%d]:%s", firstFree+len(c.files)+2*i, t.handedName()))
	}
	c.files = append(slices.Clone(c.files), made...)
	return made, nil
}

// nameSessions tells libsingshim-criu.so which sessions have which terminals, and which processes have no terminal.
func (r *restorer) nameSessions(c *command, all []madeTerminal) error {
	var sessions, detached []string
	for _, t := range all {
		if t.session != 0 {
			sessions = append(sessions, fmt.Sprintf("%d %s", t.session, t.childPath()))
		}
	}
	for _, p := range r.image.Processes {
		if p.Detached {
			detached = append(detached, strconv.Itoa(p.PID))
		}
	}
	c.env = append(c.env, sessionsVariable+"="+strings.Join(sessions, "\n"), detachedVariable+"="+strings.Join(detached, ","))
	var err error
	c.preload, err = findLibrary()
	return err
}

// readTerminals returns the terminals of an image that programs of the image drive, by their numbers. A terminal
// is left to criu if its driving side sends signals (O_ASYNC).
func readTerminals(src Source) ([]madeTerminal, error) {
	kinds := map[uint32]*tty.TtyInfoEntry{}
	err := eachEntryOf(src, terminalsName, terminalsMagic, func(b []byte) error {
		var m tty.TtyInfoEntry
		if err := proto.Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%w: %w", errImage, err)
		}
		isDriving := m.GetType() == tty.TtyType_PTY && m.GetRdev() == uint32(unix.Mkdev(5, 2))
		if isDriving && m.Termios != nil && m.GetPty().GetIndex() <= maxTerminals { // without termios it is hung up
			kinds[m.GetId()] = &m
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || len(kinds) == 0 {
		return nil, err
	}
	paths := map[uint32]string{}
	var all []madeTerminal
	err = eachEntryOf(src, filesName, filesMagic, func(b []byte) error {
		var m fdinfo.FileEntry
		if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%w: %w", errImage, err)
		}
		f, t := m.GetReg(), m.GetTty()
		kind := kinds[t.GetTtyInfoId()]
		switch {
		case f != nil:
			if filepath.Base(f.GetName()) == "ptmx" {
				paths[f.GetId()] = f.GetName()
			}
		case t != nil && kind != nil && t.GetFown().GetSignum() == 0 && t.GetFown().GetPid() == 0:
			all = append(all, newTerminal(t, kind))
		}
		return nil
	})
	for i := range all {
		all[i].path = paths[all[i].entry]
	}
	all = slices.DeleteFunc(all, func(t madeTerminal) bool { return t.path == "" || strings.Contains(t.path, "\n") })
	slices.SortFunc(all, func(a, b madeTerminal) int { return a.number - b.number })
	return all, err
}

// nameForegrounds returns the image of terminals as it is to be restored, and the size of the image before. The group
// in the foreground may have ended, as just before a shell takes the terminal again. No system call chooses a group
// that is not there, and criu would give up; so the image names the first process of the session instead.
func (r *restorer) nameForegrounds(in io.Reader) (*bytes.Reader, int64, error) {
	groups := map[uint32]bool{}
	err := eachEntryOf(r.source, pstreeName, pstreeMagic, func(b []byte) error {
		var m pstree.PstreeEntry
		err := proto.Unmarshal(b, &m)
		groups[m.GetPgid()] = true
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return rewriteEntries(in, terminalsMagic, func(b []byte) ([]byte, error) {
		var m tty.TtyInfoEntry
		if err := proto.Unmarshal(b, &m); err != nil {
			return nil, fmt.Errorf("%w: %w", errImage, err)
		}
		if m.GetSid() == 0 || groups[m.GetPgrp()] {
			return b, nil
		}
		m.Pgrp = proto.Uint32(m.GetSid())
		return proto.Marshal(&m)
	})
}

// newTerminal returns a terminal by the entries of its driving side.
func newTerminal(t *tty.TtyFileEntry, kind *tty.TtyInfoEntry) madeTerminal {
	made := madeTerminal{entry: t.GetRegfId(), flags: int(t.GetFlags()), number: int(kind.GetPty().GetIndex()), session: int(kind.GetSid())}
	if w := kind.GetWinsize(); w != nil {
		made.size = &unix.Winsize{
			Row: uint16(w.GetWsRow()), Col: uint16(w.GetWsCol()), Xpixel: uint16(w.GetWsXpixel()), Ypixel: uint16(w.GetWsYpixel()),
		}
	}
	return made
}

// childPath is the path of the side that the session has.
func (t *madeTerminal) childPath() string {
	dir := filepath.Dir(t.path)
	if filepath.Base(dir) != "pts" {
		dir = filepath.Join(dir, "pts")
	}
	return filepath.Join(dir, strconv.Itoa(t.number))
}

// handedName is the name by which criu inherits the driving side. criu derives the path of the other side from it
// (pty_alloc_fake_reg in criu/tty.c), so the name is in the folder of the path.
func (t *madeTerminal) handedName() string {
	return fmt.Sprintf("%s/singularity-terminal-%d", strings.TrimPrefix(filepath.Dir(t.path), "/"), t.number)
}

// openBelow makes a terminal with its number below a root, and returns both sides. The second side stays open until the
// restore is complete: when its last descriptor is closed, the kernel takes the terminal from the session.
func (t *madeTerminal) openBelow(root *os.File) ([]*os.File, error) {
	path, err := t.findMaker(root)
	if err != nil {
		return nil, err
	}
	defer unix.Close(path)
	var lower []*os.File
	defer func() { localsock.CloseAll(lower) }()
	for {
		const kept = unix.O_ACCMODE | unix.O_NONBLOCK | unix.O_APPEND
		fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", path), t.flags&kept|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, os.NewSyscallError("open", err)
		}
		f := os.NewFile(uintptr(fd), t.path)
		number, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
		switch {
		case err == nil && int(number) < t.number:
			lower = append(lower, f)
			continue
		case err == nil && int(number) > t.number:
			err = errors.New("another program of the capsule has a terminal of that number")
		}
		if err == nil {
			var child *os.File
			if child, err = t.openChild(fd); err == nil {
				return []*os.File{f, child}, nil
			}
		}
		f.Close()
		return nil, err
	}
}

// findMaker returns a descriptor (O_PATH) of the ptmx below a root. The path is the image's, and may be a user's file
// by now, such as a pipe, which would keep open(2) waiting: so no other file than a ptmx is opened.
func (t *madeTerminal) findMaker(root *os.File) (int, error) {
	how := &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	path, err := unix.Openat2(int(root.Fd()), strings.TrimPrefix(t.path, "/"), how)
	if err != nil {
		return -1, os.NewSyscallError("open", err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(path, &st); err == nil && (st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(5, 2)) {
		err = fmt.Errorf("%s makes no terminals", t.path)
	}
	if err != nil {
		unix.Close(path)
		return -1, err
	}
	return path, nil
}

// openChild opens the other side of a terminal, and sets the terminal's size: if criu changed the size later, the
// kernel would signal the session.
func (t *madeTerminal) openChild(driving int) (*os.File, error) {
	if err := unix.IoctlSetPointerInt(driving, unix.TIOCSPTLCK, 0); err != nil {
		return nil, os.NewSyscallError("unlock", err)
	}
	if t.size != nil {
		if err := unix.IoctlSetWinsize(driving, unix.TIOCSWINSZ, t.size); err != nil {
			return nil, os.NewSyscallError("size", err)
		}
	}
	fd, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(driving), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		return nil, os.NewSyscallError("open the other side", e)
	}
	return os.NewFile(fd, t.childPath()), nil
}
