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

// identity is the user that a process becomes when its gate opens.
type identity struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"`
	OOM    int      `json:"oom"`
}

// ErrUnwanted is returned by Become if the daemon ended before it opened the gate. The process must exit
// then.
var ErrUnwanted = errors.New("the daemon that started it has ended")

// Become waits at the gate, a descriptor, and then makes this process the user's. There is no way back. A
// process that Start has started calls Become first of all; only the descriptors up to last, and those that prepare
// opens as root, stay open. Become can be called once.
//
// The process changes its user and never executes a program after that, so the user can never look into the process.
// The user could trace a program that the process executed as the user.
func Become(gate, last int, prepare func() error) error {
	closeInherited(last)
	if err := prepare(); err != nil {
		return err
	}
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
		// The kernel sets the dumpable flag from fs.suid_dumpable when setuid is called, so the flag is
		// cleared after that.
		{"dumpable", undumpable},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("become user %d: %s: %w", uid, step.what, err)
		}
	}
	unix.Umask(0o077)
	return nil
}

// noNewPrivileges sets the flag for all threads. A program that uses cgo cannot do that: its starter must
// have set the flag by Renounce before it executed the program, which noNewPrivileges then checks of each
// thread.
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

// Renounce keeps the calling thread, and all programs that the thread executes, from gaining privileges.
// The caller must never give the thread back to the Go scheduler.
func Renounce() error {
	runtime.LockOSThread()
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// closeInherited closes descriptors that the starter let through by mistake. The descriptors that the Go
// runtime has opened stay open: its poller, and the files with the CPU limits.
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

// MaxLog is the largest size of a log, in bytes.
const MaxLog = 1 << 20

// Log is a log file that begins anew when it is full, so that it has the latest lines and not the first. If the process
// crashes, the Go runtime's message follows these lines.
type Log struct {
	mu sync.Mutex
	f  *os.File
}

// NewLog makes a Log of a file that was opened for appending. The caller closes the file.
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
