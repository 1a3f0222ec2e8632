// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// undoNames undoes the job's renames and new files after the cut, the latest first, so that the files of a folder that
// was moved, known or not, are found at their old place. A change that cannot be undone here is left to the steps that
// follow.
func (b *backer) undoNames(t *tree) {
	for _, e := range slices.Backward(b.entries) {
		switch e.Kind {
		case Renamed, Replaced:
			b.undoRename(e, t)
		case Exchanged:
			b.exchangeNames(e)
		case Created, Folder, Symlinked, Linked:
			b.undoCreate(e.Path)
		case Written, Appended, Removed, Closed, Mapped, Unsure:
			// The old content cannot be restored by names.
		}
	}
}

// findPutBack returns the paths of the State that an earlier PutBack has put back, of the files that the job had taken
// away, and the folders that lead to these paths. The earlier PutBack failed later, or its caller crashed before Rewind.
// Such a folder can be a folder of the job's that could not be moved back, and was kept in the place of the recorded
// folder. To move that folder now would take the files along, to a place where no entry says that they are.
func (b *backer) findPutBack(t *tree) map[string]bool {
	all := map[string]bool{}
	for name, f := range b.state.Files {
		p := string(name)
		if n := t.findNode(p); n == nil || !n.gone || !b.isPutBack(p, f) {
			continue
		}
		for ; p != "/" && !all[p]; p = path.Dir(p) {
			all[p] = true
		}
	}
	return all
}

// isPutBack says whether the present file at a path is the recorded file, or has what a PutBack gives to a file that it
// makes: the mode of an unfinished file, or, at the end, the recorded mode and time.
func (b *backer) isPutBack(p string, f *File) bool {
	st, err := statLink(p)
	if err != nil || typeOf(st) != f.Type || !b.isUsers(st) {
		return false
	}
	now := b.describeFile(p, st)
	same, _ := b.isSameFile(f, now)
	return same || isUnfinished(now.Mode, f) || now.Size == f.Size && now.Mode == f.Mode && now.Mtime == f.Mtime
}

func (b *backer) undoRename(e Entry, t *tree) {
	now, err := statLink(e.Path)
	if err != nil || !b.isUsers(now) || b.earlier[e.Path] {
		return
	}
	if b.belongsAt(e.Path, now) {
		return
	}
	if _, err := statLink(e.Other); !isMissing(err) {
		return
	}
	if e.Kind == Replaced && typeOf(now) != Dir { // only an empty folder can have been replaced
		// The replaced file is gone. The file that has replaced it is restored in place, unless it is known to belong
		// elsewhere.
		old, at := b.state.Files[Name(e.Other)], b.state.Files[Name(e.Path)]
		if at == nil || at.Type == Missing || old == nil || old.Ino != now.Ino {
			return
		}
	}
	err = unix.Renameat2(unix.AT_FDCWD, e.Path, unix.AT_FDCWD, e.Other, unix.RENAME_NOREPLACE)
	if n := t.findNode(e.Path); err == nil && n != nil {
		t.copyBelow(t.nodeAt(e.Other), n, 0) // also the folder's extra files are now below e.Other
	}
}

// belongsAt says whether the present file at a path is the State's: the job itself, or a PutBack that failed, has undone
// the change.
func (b *backer) belongsAt(p string, now unix.Stat_t) bool {
	f := b.state.Files[Name(p)]
	if f == nil || f.Type != typeOf(now) {
		return false
	}
	same, _ := b.isSameFile(f, b.describeFile(p, now))
	return same || isUnfinished(now.Mode&0o7777, f)
}

func (b *backer) exchangeNames(e Entry) {
	one, err1 := statLink(e.Path)
	two, err2 := statLink(e.Other)
	if err1 != nil || err2 != nil || !b.isUsers(one) || !b.isUsers(two) {
		return
	}
	// With only a single file at its place, the entry may be a step of a longer way that has to be undone.
	if b.belongsAt(e.Path, one) && b.belongsAt(e.Other, two) {
		return
	}
	_ = unix.Renameat2(unix.AT_FDCWD, e.Path, unix.AT_FDCWD, e.Other, unix.RENAME_EXCHANGE)
}

// undoCreate removes a file or folder that the job has made after the cut.
func (b *backer) undoCreate(p string) {
	now, err := statLink(p)
	if err != nil || !b.isUsers(now) || b.logs[[2]uint64{now.Dev, now.Ino}] {
		return
	}
	if f := b.state.Files[Name(p)]; f != nil && f.Type != Missing {
		if same, known := b.isSameFile(f, b.describeFile(p, now)); same || !known {
			return // the file was there at the cut
		}
	}
	b.noteFolderTime(p)
	if err := removeEmpty(p, now); err == nil {
		b.report.Removed++
		b.removed[p] = true
	}
}

// removeEmpty removes a file, or a folder that is empty.
func removeEmpty(p string, now unix.Stat_t) error {
	if typeOf(now) == Dir {
		return unix.Rmdir(p)
	}
	return unix.Unlink(p)
}

// isUsers says whether a file is the user's. The job has not made files of other owners.
func (b *backer) isUsers(st unix.Stat_t) bool { return st.Uid == b.o.UID }

// cleanUp removes, truncates or notes the files that the State does not have, the content of a folder before the
// folder.
func (b *backer) cleanUp(t *tree) {
	for _, p := range slices.Backward(t.touchedPaths()) {
		f := b.state.Files[Name(p)]
		if f != nil && f.Type != Missing || belowAny(p, b.skip) {
			continue
		}
		n := t.findNode(p)
		now, err := statLink(p)
		if err != nil || b.logs[[2]uint64{now.Dev, now.Ino}] {
			continue
		}
		switch {
		case !b.isUsers(now):
			b.addProblem(p, "left alone: it belongs to another user")
		case n.made && !n.lost && !n.unique || n.maybe && (f != nil || b.isNew(p)) || b.wasMoved(p, now, t):
			if err := removeEmpty(p, now); err != nil {
				b.tolerateOrFail(p, "the job made it after the cut, but it cannot be removed", err)
			} else {
				b.report.Removed++
			}
		case n.grew && !n.wrote && n.size >= 0 && typeOf(now) == Regular:
			b.cutAppended(p, now, n.size)
		case n.lost || n.wrote || n.grew || n.maybe:
			b.addProblem(p, "left alone: the job changed it for the first time after the checkpoint, and its earlier contents are not known")
		}
	}
}

// pruneFolders removes the folders that lead to files of programs that bypass the shim, if the folders are new and
// empty: the change list did not see the folders being made.
func (b *backer) pruneFolders() {
	for _, e := range b.entries {
		if e.Kind != Closed {
			continue
		}
		for dir := path.Dir(e.Path); dir != "/" && b.rmdirNew(dir); dir = path.Dir(dir) {
			b.report.Removed++
		}
	}
}

func (b *backer) rmdirNew(dir string) bool {
	f := b.state.Files[Name(dir)]
	if f != nil && f.Type != Missing || belowAny(dir, b.skip) {
		return false
	}
	now, err := statLink(dir)
	return err == nil && typeOf(now) == Dir && b.isUsers(now) && (f != nil || b.isNew(dir)) && unix.Rmdir(dir) == nil
}

// wasMoved says whether a file is at its place only because undo could undo just a part of the job's changes to
// folders.
func (b *backer) wasMoved(p string, now unix.Stat_t, t *tree) bool {
	from, ok := b.origin[[2]uint64{now.Dev, now.Ino}]
	if !ok || from == p {
		return false
	}
	n := t.findNode(from)
	return n != nil && !n.unique
}

// isNew says whether a file was born after the cut, if its file system tells.
func (b *backer) isNew(p string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, p, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return false
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)).After(b.state.Time)
}

// cutAppended truncates a file that was there before the job to its old size.
func (b *backer) cutAppended(p string, now unix.Stat_t, size int64) {
	if now.Size <= size {
		return
	}
	file, err := openFile(p, unix.O_WRONLY, b.describeFile(p, now))
	if err == nil {
		err = errors.Join(file.Truncate(size), file.Close())
	}
	if err != nil {
		b.tolerateOrFail(p, "bytes that were appended after the checkpoint stay", err)
		return
	}
	b.report.Restored++
}
