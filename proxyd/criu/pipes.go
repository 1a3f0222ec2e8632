// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

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
	members, err := membersOf(init)
	if err != nil {
		return err
	}
	var errs []error
	for _, pid := range i.listPIDs() {
		if m, there := members[pid]; there {
			errs = append(errs, givePipes(fmt.Sprintf("/proc/%d/fd/", m.host), int(i.Program.UID), int(i.Program.GID), outside))
		}
	}
	return errors.Join(errs...)
}

// givePipes gives away what is a pipe, is root's, and is not outside, of a folder of descriptors.
func givePipes(dir string, uid, gid int, outside []uint64) error {
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
