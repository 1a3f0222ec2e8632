// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// A program may have a file open by a name that was since removed, while the file has another name. glibc makes each
// named semaphore so (sem_open: a temporary file is mapped, linked to the semaphore's name, and removed). The kernel
// then calls the file "/dev/shm/sem.k3XyZa (deleted)", and CRIU looks for a file of just that name before it gives up
// (check_path_remap in criu/files-reg.c). So as long as a program is dumped and its folders are packed, the file has
// that name as well:
//
//	dump     LinkRemoved    P (deleted)   beside the other name; packed with it as a hard link
//	         UnlinkRemoved  at once after the dump
//	restore  RenameRemoved  P, if no other file has that name, for the kernel appends its word again
//	         criu           opens the file by the name that the image gives
//	         UnlinkRemoved  when all programs of the capsule are back
//
// CRIU's own --link-remap makes a link of another name, and removes it while the folder is packed.

// LinkRemoved gives removed files below folders the names by which the kernel calls them, if processes have the files
// open or mapped and the files have another name. The folders are a capsule's own, the processes stand still.
// LinkRemoved returns the names as the capsule sees them, also with an error.
func LinkRemoved(init int, pids []int, folders []string) (links []string, err error) {
	table, err := mounts.Of(init)
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		for name, at := range findRemovedFiles(pid, folders) {
			if slices.Contains(links, name) {
				continue
			}
			made, e := linkRemoved(init, table, name, at)
			if e != nil {
				err = errors.Join(err, fmt.Errorf("PID %d: %s: %w", pid, name, e))
			}
			if made {
				links = append(links, name)
			}
		}
	}
	slices.Sort(links)
	return links, err
}

// findRemovedFiles returns the removed files in folders that a process has open or mapped: the kernel's names, with
// paths by which this process can reach the files.
func findRemovedFiles(pid int, folders []string) map[string]string {
	found := map[string]string{}
	see := func(name, at string) {
		below := func(dir string) bool { return strings.HasPrefix(name, dir+"/") }
		if strings.HasSuffix(name, removed) && slices.ContainsFunc(folders, below) {
			found[name] = at
		}
	}
	for d, err := range procfs.Descriptors(pid) {
		if err != nil {
			break // the process has ended, or has too many: the dump reports that
		}
		if name, err := d.Link(); err == nil {
			see(name, d.Path())
		}
	}
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return found
	}
	defer maps.Close()
	for s := bufio.NewScanner(maps); s.Scan(); {
		// 7f0-7f1 rw-s 00000000 00:1a 5    /dev/shm/sem.k3XyZa (deleted)
		if !strings.HasSuffix(s.Text(), removed) {
			continue
		}
		span, _, _ := strings.Cut(s.Text(), " ")
		at := fmt.Sprintf("/proc/%d/map_files/%s", pid, unpadSpan(span))
		if name, err := os.Readlink(at); err == nil {
			see(name, at)
		}
	}
	return found
}

// unpadSpan is a span of addresses as in map_files.
func unpadSpan(span string) string {
	from, to, _ := strings.Cut(span, "-")
	a, errA := strconv.ParseUint(from, 16, 64)
	b, errB := strconv.ParseUint(to, 16, 64)
	if errA != nil || errB != nil {
		return span
	}
	return fmt.Sprintf("%x-%x", a, b)
}

// linkRemoved gives a file its name, unless another file has that name: then CRIU has to preserve the file.
func linkRemoved(init int, table *mounts.Table, name, at string) (made bool, err error) {
	// No file of a user's server is in these folders, though such a file may be mounted there. No such server is asked.
	st, err := mounts.Stat(at)
	if err != nil || st.Links == 0 || st.Kind() != unix.S_IFREG || !table.IsServedBySystem(st) || table.IsServedByUser(name) {
		return false, err
	}
	dir, err := folderIn(init, filepath.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // CRIU will report the file if it objects
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	err = unix.Linkat(unix.AT_FDCWD, at, dir, filepath.Base(name), unix.AT_SYMLINK_FOLLOW)
	if errors.Is(err, unix.ENAMETOOLONG) || errors.Is(err, unix.EEXIST) {
		return false, nil // CRIU reports this file, too, if it objects
	}
	return err == nil, err
}

// folderIn opens a folder of a capsule, and follows no symbolic link: the job may have put a link
// there that leads elsewhere.
func folderIn(init int, path string) (int, error) {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", init), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	return unix.Openat2(root, strings.TrimPrefix(path, "/"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	})
}

// UnlinkRemoved removes the names again. UnlinkRemoved may be called twice.
func UnlinkRemoved(init int, links []string) error {
	var errs []error
	for _, name := range links {
		dir, err := folderIn(init, filepath.Dir(name))
		if err == nil {
			err = unix.Unlinkat(dir, filepath.Base(name), 0)
			unix.Close(dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// RenameRemoved gives files that were unpacked with such names the names by which their programs opened them. Where
// another file has that name, the file keeps the kernel's. RenameRemoved returns the present name of each file.
func RenameRemoved(init int, links []string) (map[string]string, error) {
	now := map[string]string{}
	for _, name := range links {
		dir, err := folderIn(init, filepath.Dir(name))
		if err != nil {
			return now, fmt.Errorf("%s: %w", name, err)
		}
		base := filepath.Base(name)
		to := strings.TrimSuffix(name, removed)
		err = unix.Renameat2(dir, base, dir, filepath.Base(to), unix.RENAME_NOREPLACE)
		unix.Close(dir)
		switch {
		case err == nil:
			now[name] = to
		case errors.Is(err, unix.EEXIST):
			now[name] = name
		default:
			return now, fmt.Errorf("%s: %w", name, err)
		}
	}
	return now, nil
}
