// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// StdioOf names descriptors as Program.Stdio has them; the name of nil is "".
func StdioOf(files [3]*os.File) ([3]string, error) {
	var names [3]string
	for i, f := range files {
		if f == nil {
			continue
		}
		raw, err := f.SyscallConn()
		if err != nil {
			return names, err
		}
		if e := raw.Control(func(fd uintptr) { names[i], err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) }); e != nil || err != nil {
			return names, errors.Join(e, err)
		}
	}
	return names, nil
}

// externalSockets are the sockets of stdio in the words of criu's --external. Pipes need no such option.
func externalSockets(stdio [3]string) []string {
	var all []string
	for _, name := range stdio {
		number, ok := strings.CutPrefix(name, "socket:[")
		if !ok {
			continue
		}
		if what := "unix[" + strings.TrimSuffix(number, "]") + "]"; !slices.Contains(all, what) {
			all = append(all, what)
		}
	}
	return all
}

// inheritOptions returns criu's options that replace pipes and sockets that were not the program's own with the new
// files, and these files in the order of their descriptors.
func inheritOptions(was [3]string, now [3]*os.File) (args []string, files []*os.File, err error) {
	seen := map[string]bool{}
	for i, name := range was {
		if !isInherited(name) || seen[name] {
			continue
		}
		seen[name] = true
		if now[i] == nil {
			return nil, nil, fmt.Errorf("descriptor %d was %s, and nothing is given for it", i, name)
		}
		args = append(args, "--inherit-fd", fmt.Sprintf("fd[%d]:%s", firstFree+len(files), name))
		files = append(files, now[i])
	}
	return args, files, nil
}

// restoreUnreadInput puts the input that a program had not read yet before the bytes in its new input. CRIU does not
// do so for a pipe that CRIU did not make.
func restoreUnreadInput(old []byte, stdin *os.File) error {
	if len(old) == 0 {
		return nil
	}
	raw, err := stdin.SyscallConn()
	if err != nil {
		return err
	}
	// Open the pipe again, to get flags of its own, and both to read and to write. Root writes into pipes only: there the
	// kernel checks no permissions. The user may have made another file the new input.
	fd := -1
	if err := raw.Control(func(f uintptr) {
		if _, err = unix.FcntlInt(f, unix.F_GETPIPE_SZ, 0); err != nil {
			return
		}
		fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", f), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}); err != nil {
		return err
	}
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	size, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		return os.NewSyscallError("F_GETPIPE_SZ", err)
	}
	arrived := make([]byte, size)
	n, err := unix.Read(fd, arrived)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		return os.NewSyscallError("read", err)
	}
	all := append(bytes.Clone(old), arrived[:max(n, 0)]...)
	if size < len(all) {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, len(all)); err != nil {
			return os.NewSyscallError("F_SETPIPE_SZ", err)
		}
	}
	for len(all) > 0 {
		n, err := unix.Write(fd, all)
		if err != nil {
			return os.NewSyscallError("write", err)
		}
		all = all[n:]
	}
	return nil
}

// ownPipes gives the pipes of restored processes to the job's user, where criu has made them as
// root: the kernel checks the rights of a program that opens a pipe once more by its descriptor, as
// programs do that get /dev/fd/63 from a shell's process substitution. The pipes of stdio keep
// their owners.
func (i *Image) ownPipes(init int, stdio [3]*os.File) error {
	var outside []uint64
	for _, f := range stdio {
		if f == nil {
			continue
		}
		// A file of the user's is not asked: its file system may not answer.
		if link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err != nil || !strings.HasPrefix(link, "pipe:[") {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return err
		}
		outside = append(outside, st.Ino)
	}
	members, err := listMembers(init)
	if err != nil {
		return err
	}
	var errs []error
	for _, pid := range i.listPIDs() {
		if m, there := members[pid]; there {
			errs = append(errs, chownPipes(fmt.Sprintf("/proc/%d/fd/", m.host), int(i.Program.UID), int(i.Program.GID), outside))
		}
	}
	return errors.Join(errs...)
}

// chownPipes changes the owner of the pipes in a folder of descriptors that are root's and not in outside.
func chownPipes(dir string, uid, gid int, outside []uint64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreGone(err)
	}
	for _, e := range entries {
		link, err := os.Readlink(dir + e.Name())
		if err != nil || !strings.HasPrefix(link, "pipe:[") {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(dir+e.Name(), &st); err != nil || st.Uid != 0 || slices.Contains(outside, st.Ino) {
			continue
		}
		if err := ignoreGone(os.Chown(dir+e.Name(), uid, gid)); err != nil {
			return err
		}
	}
	return nil
}

// lendPipes gives the new pipes of stdio to the job's user: criu, with the user's rights, opens
// them once more to have a position and flags of its own. Their ends are the user's already.
func lendPipes(files []*os.File, as *rights) error {
	for _, f := range files {
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err != nil {
			return err
		}
		if !strings.HasPrefix(link, "pipe:[") {
			continue // a file, or a socket: not opened again
		}
		if err := f.Chown(int(as.uid), int(as.gid)); err != nil {
			return err
		}
	}
	return nil
}

// ignoreGone is nil for the error of looking at a process that has ended.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
