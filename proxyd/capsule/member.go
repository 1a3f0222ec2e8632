// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lookAtWarden returns the PID that a warden has in the maker's PID namespace, and the
// cgroup that it is in. The pidfd is what the warden says it is. It must be a process of
// the same user that has joined this capsule's mounts from outside of its PID namespace:
// a user who lies can only name another warden of his own in the same capsule, whose
// cgroup is his job's too.
func (s *server) lookAtWarden(said *os.File, uid uint32) (pid int, cgroup string, err error) {
	fd := &pidfd{said}
	// The fdinfo of our own descriptor counts PIDs as the /proc does in which it is read.
	if err := fd.with(func(n int) error {
		b, err := s.readProc(fmt.Sprintf("self/fdinfo/%d", n))
		if err == nil {
			pid, err = pidIn(b)
		}
		return err
	}); err != nil {
		return 0, "", fmt.Errorf("warden: %w", err)
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("warden %d: "+format+": %w", append(append([]any{pid}, args...), syscall.EPERM)...)
	}
	if inside, err := fd.pid(); err == nil {
		return 0, "", refuse("is PID %d of the capsule", inside)
	}
	status, err := s.readProc(fmt.Sprintf("%d/status", pid))
	if err != nil {
		return 0, "", fmt.Errorf("warden %d: %w", pid, err)
	}
	if owner, err := uidIn(status); err != nil || owner != uid {
		return 0, "", refuse("is not of uid %d", uid)
	}
	theirs, err := s.linkInProc(fmt.Sprintf("%d/ns/mnt", pid))
	if err != nil {
		return 0, "", fmt.Errorf("warden %d: %w", pid, err)
	}
	if ours, err := os.Readlink("/proc/self/ns/mnt"); err != nil || theirs != ours {
		return 0, "", refuse("has not joined the capsule")
	}
	if s.cgroups != "" {
		b, err := s.readProc(fmt.Sprintf("%d/cgroup", pid))
		if err == nil {
			cgroup, err = cgroupIn(b)
		}
		if err != nil {
			log.Printf("cgroup of warden %d: %v", pid, err) // the program then has none
		}
	}
	if !fd.alive() { // and what was read may be another's
		return 0, "", fmt.Errorf("warden %d: %w", pid, syscall.ESRCH)
	}
	return pid, cgroup, nil
}

// readProc reads a file of the maker's /proc.
func (s *server) readProc(path string) ([]byte, error) {
	fd, err := unix.Openat(numbers([]*os.File{s.proc})[0], path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	b := make([]byte, 16<<10) // a kernel's file is given out as it is asked for
	n, err := f.Read(b)
	return b[:n], err
}

func (s *server) linkInProc(path string) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(numbers([]*os.File{s.proc})[0], path, b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// makeGroup makes the cgroup of a program below that of its warden, with pids in it, and
// returns its folder. Without one a program runs as well, only it cannot be frozen; so a
// failure is complained about, and "" returned. Caller holds s.mu, for milliseconds: the
// kernel waits for every processor when it moves the first process after a while.
func (s *server) makeGroup(parent, name string, pids ...int) string {
	if s.cgroups == "" || parent == "" {
		return ""
	}
	g, err := makeGroup(filepath.Join(s.cgroups, parent), groupPrefix(s.id)+name)
	if err == nil {
		if err = g.add(pids...); err != nil {
			go complain("cgroup of "+name, func() error { return os.Remove(string(g)) })
		}
	}
	if err != nil {
		log.Printf("cgroup of %s: %v", name, err)
		return ""
	}
	return string(g)
}

// checkGroup returns nil if a process is in p's cgroup. Caller holds s.mu, as with
// checkSteward.
func (s *server) checkGroup(p Program, pid int) error {
	if p.Cgroup == "" {
		return nil
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return err
	}
	in, err := cgroupIn(b)
	if err != nil {
		return err
	}
	if in = filepath.Join(s.cgroups, in); in != p.Cgroup {
		return &RefusedError{p.Name, syscall.EINVAL, fmt.Sprintf("PID %d is in the cgroup %s, not in its own, %s", pid, in, p.Cgroup)}
	}
	return nil
}

// stdioOf returns what three descriptors are, of the process whose folder fd is.
func stdioOf(folder string, fds ...int) [3]string {
	var links [3]string
	for i, fd := range fds[:len(links)] {
		links[i], _ = os.Readlink(filepath.Join(folder, strconv.Itoa(fd))) // closed: ""
	}
	return links
}

// uidIn returns the real user in a /proc/PID/status. The owner of /proc/PID is another
// one when the process cannot be dumped.
func uidIn(status []byte) (uint32, error) {
	for line := range strings.Lines(string(status)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "Uid:" {
			uid, err := strconv.ParseUint(words[1], 10, 32)
			return uint32(uid), err
		}
	}
	return 0, unix.ESRCH
}
