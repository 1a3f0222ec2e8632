// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// recordParents records the user's folders that lead to the recorded files. The change list does not name a folder that
// a program made which bypasses the shim, nor a folder that was there before the job; PutBack makes both again if they
// are gone.
func (c *collector) recordParents() {
	seen := map[string]bool{}
	c.out.Parents = map[Name]*File{}
	for p, f := range c.out.Files {
		if f.Type == Missing || f.Type == Other {
			continue
		}
		for dir := path.Dir(string(p)); dir != "/" && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			if known := c.out.Files[Name(dir)]; known != nil && known.Type == Dir {
				continue
			}
			st, err := statLink(dir)
			if err == nil && typeOf(st) == Dir && st.Uid == c.o.UID {
				folder := &File{Type: Dir, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, Mtime: st.Mtim.Nano()}
				c.recordXattrs(dir, folder)
				if !c.reserveRoom(dir, folder) {
					return
				}
				c.out.Parents[Name(dir)] = folder
			}
		}
	}
}

// makeParents makes the folders that lead to a path, where they are missing. A recorded folder gets its permissions,
// group and time from setAllAttributes.
func (b *backer) makeParents(p string) error {
	dir := path.Dir(p)
	if _, err := os.Lstat(dir); err == nil || dir == "/" {
		return nil
	}
	if err := b.makeParents(dir); err != nil {
		return err
	}
	if b.state.Parents[Name(dir)] == nil {
		b.addProblem(dir, "made: it was not there any more, and what it was is not known")
		return unix.Mkdir(dir, 0o755)
	}
	b.done[dir] = true
	return unix.Mkdir(dir, unfinishedFolder)
}

// noteUnfinishedParents finds the folders that an earlier PutBack has made and, because it failed, not finished.
func (b *backer) noteUnfinishedParents() {
	for p, f := range b.state.Parents {
		st, err := statLink(string(p))
		if err == nil && typeOf(st) == Dir && b.isUsers(st) && isUnfinished(st.Mode&0o7777, f) {
			b.done[string(p)] = true
		}
	}
}

// noteFolderTime is called before a name is made or removed. If its folder is one that only leads to files of the State,
// and was there, the folder gets its time back (setAllAttributes).
func (b *backer) noteFolderTime(p string) {
	dir := path.Dir(p)
	if _, noted := b.times[dir]; noted || b.done[dir] || b.state.Parents[Name(dir)] == nil {
		return
	}
	if st, err := statLink(dir); err == nil && typeOf(st) == Dir && b.isUsers(st) {
		b.times[dir] = st.Mtim.Nano()
	}
}
