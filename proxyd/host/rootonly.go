// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNotRootOnly is wrapped by the errors of RootOnly that are about owners and modes.
var ErrNotRootOnly = errors.New("not root's alone")

// RootOnly says whether only root can change the file or folder at path, or put another in its
// place: the folder, all folders above, and the links on the way, are root's, and root alone can
// write there. In a sticky folder (/tmp) other users cannot remove root's files, so there the next
// name must exist and be root's. The error has the problem and, after a colon, the remedy.
func RootOnly(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s: want an absolute path", path)
	}
	names := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	at, links := "/", 0
	above, err := statLink(at)
	if err != nil {
		return err
	}
	for len(names) > 0 {
		if err := rootsAlone(at, above); err != nil {
			return err
		}
		name := names[0]
		names = names[1:]
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			at = filepath.Dir(at)
			if above, err = statLink(at); err != nil {
				return err
			}
			continue
		}
		next := filepath.Join(at, name)
		st, err := statLink(next)
		if err != nil {
			return err
		}
		if st.Uid != 0 {
			return fmt.Errorf("%w: %s belongs to user %d: chown root %s, where NFS squashes root, export it with no_root_squash", ErrNotRootOnly, next, st.Uid, next)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			if links++; links > maxLinks {
				return fmt.Errorf("%s: %w", path, unix.ELOOP)
			}
			to, err := os.Readlink(next)
			if err != nil {
				return err
			}
			if filepath.IsAbs(to) {
				at = "/"
				if above, err = statLink(at); err != nil {
					return err
				}
			}
			names = append(strings.Split(strings.Trim(to, "/"), "/"), names...)
			continue
		}
		at, above = next, st
	}
	if above.Mode&0o022 != 0 {
		return fmt.Errorf("%w: %s has mode %04o: chmod go-w %s", ErrNotRootOnly, at, above.Mode&0o7777, at)
	}
	return nil
}

// maxLinks is the kernel's limit on links that are followed.
const maxLinks = 40

func statLink(path string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return nil, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return &st, nil
}

// rootsAlone says whether only root can replace root's files in a folder.
func rootsAlone(path string, st *unix.Stat_t) error {
	switch {
	case st.Uid != 0:
		return fmt.Errorf("%w: %s belongs to user %d: chown root %s", ErrNotRootOnly, path, st.Uid, path)
	case st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0:
		return fmt.Errorf("%w: %s has mode %04o, so other users can replace files in it: chmod go-w %s", ErrNotRootOnly, path, st.Mode&0o7777, path)
	}
	return nil
}

// sharedNames are the folders that proxyd has in the shared folder.
var sharedNames = []string{"store", "jobs", "kits", "addresses"}

// SharedIsRoots says whether only root can change the shared folder, and the folders in it that
// proxyd made earlier.
func SharedIsRoots(shared string) error {
	if err := RootOnly(shared); err != nil {
		return err
	}
	for _, name := range sharedNames {
		if err := RootOnly(filepath.Join(shared, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
