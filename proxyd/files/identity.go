// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"encoding/binary"
	"hash/fnv"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

const identityMask = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BTIME

// fileIdentity tells a file from all files that are or were in its folder: an inode is soon given
// to the next file, but not with the same time of birth. Where a file system has no such time,
// the identity is the inode's alone.
func fileIdentity(st *unix.Statx_t) uint64 {
	h := fnv.New64a()
	b := binary.LittleEndian.AppendUint64(nil, st.Ino)
	if st.Mask&unix.STATX_BTIME != 0 {
		b = binary.LittleEndian.AppendUint64(b, uint64(st.Btime.Sec)*1e9+uint64(st.Btime.Nsec))
	}
	h.Write(b)
	return h.Sum64()
}

// identityAt returns the identity of the file at a path, 0 if there is no file.
func identityAt(p string) uint64 {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, p, unix.AT_SYMLINK_NOFOLLOW, identityMask, &st) != nil {
		return 0
	}
	return fileIdentity(&st)
}

// followRenamed adds entries with the new names of files that the kernel has reported under another name: for a program
// that bypasses the shim the change list knows the written files, not the renames. The new name is looked for in the same
// folder.
func (w *worker) followRenamed() {
	folders := map[string]map[uint64]string{}
	var found []Entry
	for _, e := range w.entries {
		if e.Kind != Closed || e.ID == 0 || identityAt(e.Path) == e.ID {
			continue
		}
		dir := path.Dir(e.Path)
		in, ok := folders[dir]
		if !ok {
			in = identitiesIn(dir)
			folders[dir] = in
		}
		if now, ok := in[e.ID]; ok {
			found = append(found, Entry{Kind: Closed, Path: now, ID: e.ID})
		}
	}
	w.entries = append(w.entries, found...)
}

// identitiesIn returns the names in a folder.
func identitiesIn(dir string) map[uint64]string {
	all := map[uint64]string{}
	d, err := os.Open(dir)
	if err != nil {
		return all
	}
	defer d.Close()
	for len(all) < maxEntries {
		names, err := d.Readdirnames(1024)
		for _, name := range names {
			if p := path.Join(dir, name); validPath(p) {
				if id := identityAt(p); id != 0 {
					all[id] = p
				}
			}
		}
		if err != nil {
			break
		}
	}
	return all
}
