// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// places makes mount points that the node does not have, for the capsule only: it makes no folder on the node, where
// slurmd may be about to make the same path, or another capsule about to remove it. The innermost existing folder is
// covered with a tmpfs which shows the same entries, each mounted on itself, and the missing one. Later entries of that
// folder are not seen in the capsule.
//
// The map holds the mounts that are the capsule's own, by their IDs: missing entries are made there without a cover.
type places map[uint64]bool

// maxEntries bounds the entries of a folder that is covered; each entry is a mount.
const maxEntries = 4096

// addPlace notes that the mount at path is the capsule's own.
func (p places) addPlace(path string) error {
	id, err := mountID(path)
	if err == nil {
		p[id] = true
	}
	return err
}

// makeTarget makes the target of b, a folder or an empty file, unless the target exists.
func (p places) makeTarget(b Bind, folder bool) error {
	target := filepath.Clean(b.Target)
	if !filepath.IsAbs(target) || target == "/" {
		return errors.New("want an absolute path")
	}
	parts := missingParts(target)
	if b.Alone {
		parts = missingParts(filepath.Dir(target))
		if len(parts) == 0 {
			parts = []string{filepath.Dir(target)}
		}
		parts = append(parts, target)
	}
	for i, path := range parts {
		if err := p.makeMissingPath(path, folder || i < len(parts)-1); err != nil {
			return err
		}
	}
	return nil
}

// makeMissingPath makes a folder or an empty file, in place of an existing entry.
func (p places) makeMissingPath(path string, folder bool) error {
	parent := filepath.Dir(path)
	id, err := mountID(parent)
	if err != nil {
		return err
	}
	switch {
	case p[id]:
	case parent == "/":
		// The root cannot be covered. The new folder is made on the node, which does the least harm, and stays: to remove it
		// might remove another capsule's.
	default:
		if err := p.coverFolder(parent, filepath.Base(path)); err != nil {
			return fmt.Errorf("cover %s: %w", parent, err)
		}
	}
	return makeEntry(path, folder)
}

func makeEntry(path string, folder bool) error {
	if folder {
		err := os.Mkdir(path, 0o755)
		if err == nil {
			err = os.Chmod(path, 0o755) // independent of the umask
		}
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// coverFolder mounts a tmpfs on a folder which shows all entries of the folder but the entry
// without.
func (p places) coverFolder(folder, without string) error {
	var st unix.Stat_t
	if err := unix.Stat(folder, &st); err != nil {
		return err
	}
	names, err := readNames(folder)
	if err != nil {
		return err
	}
	if len(names) > maxEntries {
		return fmt.Errorf("%d entries are in it, more than %d", len(names), maxEntries)
	}
	entries := make([]entryCopy, 0, len(names))
	defer func() {
		for _, e := range entries {
			e.close()
		}
	}()
	for _, name := range names {
		if name == without {
			continue
		}
		e, err := copyEntry(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone meanwhile
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		entries = append(entries, e)
	}
	data := fmt.Sprintf("mode=%o,uid=%d,gid=%d", st.Mode&0o7777, st.Uid, st.Gid)
	forbidden, err := forbiddenAt(folder)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID|forbidden, data); err != nil {
		return err
	}
	for _, e := range entries {
		err := e.showEntry()
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Remove(e.path) // the entry's source is gone meanwhile
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.path, err)
		}
	}
	return p.addPlace(folder)
}

// entryCopy is an entry of a folder: a symbolic link, or a tree.
type entryCopy struct {
	path   string
	link   string
	fd     int // -1 with link
	folder bool
}

func copyEntry(path string) (entryCopy, error) {
	e := entryCopy{path: path, fd: -1}
	st, err := os.Lstat(path)
	if err != nil {
		return e, err
	}
	if st.Mode()&fs.ModeSymlink != 0 {
		e.link, err = os.Readlink(path)
		return e, err
	}
	e.folder = st.IsDir()
	e.fd, err = cloneTree(path, unix.AT_SYMLINK_NOFOLLOW)
	return e, err
}

func (e entryCopy) showEntry() error {
	if e.link != "" {
		return os.Symlink(e.link, e.path)
	}
	if err := makeEntry(e.path, e.folder); err != nil {
		return err
	}
	return attachClone(e.fd, e.path)
}

func (e entryCopy) close() {
	if e.fd >= 0 {
		unix.Close(e.fd)
	}
}

// missingParts returns the parts of path that do not exist, outermost first.
func missingParts(path string) []string {
	var parts []string
	for ; ; path = filepath.Dir(path) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			slices.Reverse(parts)
			return parts
		}
		parts = append(parts, path)
	}
}

// mountID returns the ID of the mount that path is on.
func mountID(path string) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, fmt.Errorf("%s: mount ID: %w", path, errors.ErrUnsupported) // before Linux 5.8
	}
	return st.Mnt_id, nil
}
