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

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// identifyWarden returns a warden's PID in the maker's PID namespace, and the warden's cgroup. said is a pidfd sent by
// the warden. The pidfd must name a process of the same user that has joined this capsule's mounts from outside of its
// PID namespace: a lying user can only name another of the user's own wardens in the same capsule; the cgroup of that
// warden also belongs to the job.
func (s *server) identifyWarden(said *os.File, uid uint32) (pid int, cgroup string, err error) {
	fd := &pidfd{said}
	// The fdinfo of a pidfd has PIDs of the PID namespace of the /proc in which it is read.
	if err := localsock.TryWithDescriptor(fd.f, func(n int) error {
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
	if inside, err := fd.pidHere(); err == nil {
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
			log.Printf("cgroup of warden %d: %v", pid, err) // the program then has no cgroup
		}
	}
	if !fd.alive() { // the files may have been those of another process with this PID
		return 0, "", fmt.Errorf("warden %d: %w", pid, syscall.ESRCH)
	}
	return pid, cgroup, nil
}

// readProc reads a file of the maker's /proc.
func (s *server) readProc(path string) ([]byte, error) {
	fd, err := unix.Openat(localsock.Descriptors([]*os.File{s.proc})[0], path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	b := make([]byte, 16<<10) // the kernel generates the file at each read
	n, err := f.Read(b)
	return b[:n], err
}

func (s *server) linkInProc(path string) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(localsock.Descriptors([]*os.File{s.proc})[0], path, b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// makeGroup creates the cgroup of a program below its warden's, with pids in it, and returns its
// folder. A program also runs without a cgroup, but cannot be frozen; so an error is logged, and ""
// returned. Caller holds s.mu, for milliseconds: the kernel waits for every processor when the
// first process after a while is moved.
func (s *server) makeGroup(parent, name string, pids ...int) string {
	if s.cgroups == "" || parent == "" {
		return ""
	}
	g, err := makeGroup(filepath.Join(s.cgroups, parent), groupPrefix(s.id)+name)
	if err == nil {
		if err = g.addProcesses(pids...); err != nil {
			go logError("cgroup of "+name, func() error { return os.Remove(string(g)) })
		}
	}
	if err != nil {
		log.Printf("cgroup of %s: %v", name, err)
		return ""
	}
	return string(g)
}

// checkGroup returns nil if a process is in p's cgroup. Caller holds s.mu, as for checkSteward.
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

// stdioOf returns the links of three descriptors of a process, by its fd folder.
func stdioOf(folder string, fds ...int) [3]string {
	var links [3]string
	for i, fd := range fds[:len(links)] {
		links[i], _ = os.Readlink(filepath.Join(folder, strconv.Itoa(fd))) // closed: ""
	}
	return links
}

// uidIn returns the real user in a /proc/PID/status. The owner of /proc/PID differs if the
// process is not dumpable.
func uidIn(status []byte) (uint32, error) {
	for line := range strings.Lines(string(status)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "Uid:" {
			uid, err := strconv.ParseUint(words[1], 10, 32)
			return uint32(uid), err
		}
	}
	return 0, unix.ESRCH
}
