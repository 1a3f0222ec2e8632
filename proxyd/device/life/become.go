// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// identity is what a process that waits at its gate is told to become.
type identity struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"`
	OOM    int      `json:"oom"`
}

// ErrUnwanted is what Become returns when whoever has started the process is gone before it was let go: it is to end.
var ErrUnwanted = errors.New("whoever has started it is gone")

// Become waits at the gate, a descriptor, and then makes this process the user's, without a way back. A process that Start has
// started calls it before all else; only the descriptors up to last are kept. It can be called once.
//
// The process changes its user and does not execute anything then: so at no moment may that user look into it. Programs that he
// executes he could trace.
func Become(gate, last int) error {
	closeInherited(last)
	f := os.NewFile(uintptr(gate), "gate")
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	f.Close()
	if err != nil {
		return fmt.Errorf("read who to be: %w", err)
	}
	if len(b) == 0 {
		return ErrUnwanted
	}
	var who identity
	if err := json.Unmarshal(b, &who); err != nil {
		return fmt.Errorf("read who to be: %w", err)
	}
	return who.takeIdentity()
}

func (who *identity) takeIdentity() error {
	groups := make([]int, len(who.Groups))
	for i, g := range who.Groups {
		groups[i] = int(g)
	}
	uid, gid := int(who.UID), int(who.GID)
	undumpable := func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"oom_score_adj", func() error { return os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(who.OOM)), 0) }},
		{"no core", func() error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }},
		{"no new privileges", noNewPrivileges},
		{"dumpable", undumpable},
		{"setgroups", func() error { return syscall.Setgroups(groups) }},
		{"setgid", func() error { return syscall.Setresgid(gid, gid, gid) }},
		{"setuid", func() error { return syscall.Setresuid(uid, uid, uid) }},
		// That depends on fs.suid_dumpable, after setuid.
		{"dumpable", undumpable},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("become user %d: %s: %w", uid, step.what, err)
		}
	}
	unix.Umask(0o077)
	return nil
}

// noNewPrivileges is for all threads. A program with C in it cannot say so itself: whoever executed it has, by Renounce.
func noNewPrivileges() error {
	_, _, errno := syscall.AllThreadsSyscall(syscall.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
	if errno == 0 {
		return nil
	}
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		return err
	}
	for _, t := range threads {
		text, err := os.ReadFile(t)
		if err == nil && !strings.Contains(string(text), "NoNewPrivs:\t1") {
			return errno
		}
	}
	return nil
}

// Renounce takes from the calling thread, and whatever it executes, the way to more rights. The thread is the caller's for good.
func Renounce() error {
	runtime.LockOSThread()
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// closeInherited closes what whoever started us has let through by mistake. What Go has opened already for itself stays: its
// poller, and the files that tell of CPU limits.
func closeInherited(last int) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= last {
			continue
		}
		link, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(link, "anon_inode:") && !strings.Contains(link, "/cgroup") {
			_ = unix.Close(fd)
		}
	}
}

// MaxLog is how long a log is at most.
const MaxLog = 1 << 20

// Log is a file that begins anew when it is full, so that it has the last words and not the first. What the Go runtime says of its
// own end comes behind that.
type Log struct {
	mu sync.Mutex
	f  *os.File
}

// NewLog makes a Log of a file that is appended to, which stays the caller's.
func NewLog(f *os.File) *Log { return &Log{f: f} }

func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	st, err := l.f.Stat()
	if err == nil && st.Size()+int64(len(b)) > MaxLog {
		err = l.f.Truncate(0)
	}
	if err != nil {
		return 0, err
	}
	return l.f.Write(b)
}
