// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// backer puts files back.
type backer struct {
	*worker
	report  Report
	removed map[string]bool
	done    map[string]bool      // true: setAllAttributes sets mode, group and times of the path
	times   map[string]int64     // of folders in State.Parents that were there, before a name in them was changed
	origin  map[[2]uint64]string // paths of the job's files before undoNames
	strays  map[[2]uint64]string // and after undoNames
	earlier map[string]bool      // see findPutBack
	missing []missingPart
	fixed   map[Name]bool // see Job
	failed  error         // the first error that cannot be tolerated
}

// The modes of files and folders that a PutBack has made, until setAttributes: the next PutBack, after a crash, must
// take these files neither for another user's nor for files that the job has moved there. No program sets the sticky
// bit of a file.
const (
	unfinished       = 0o1600
	unfinishedFolder = 0o1700
)

func isUnfinished(mode uint32, f *File) bool {
	want := uint32(unfinished)
	if f.Type == Dir {
		want = unfinishedFolder
	}
	return mode == want && f.Mode != want
}

// missingPart is a part of a stream, and a file that this part belongs to.
type missingPart struct {
	wantedRange
	path string
	seg  Segment
}

// putBack is the helper's part of PutBack, top to bottom.
//
// A file that is there is changed in place and never replaced: other names of the file, and
// processes that have the file open, go on seeing the same file.
func (w *worker) putBack() error {
	b := &backer{worker: w, removed: map[string]bool{}, done: map[string]bool{}, times: map[string]int64{}}
	b.fixed = map[Name]bool{}
	for _, p := range w.o.Fixed {
		b.fixed[p] = true
	}
	w.resolveEntries()
	w.followRenamed()
	t := newTree()
	for p, f := range w.state.Files {
		t.nodeAt(string(p)).known = f.Type != Missing
	}
	for _, e := range w.entries {
		t.applyEntry(e)
	}
	b.origin = b.findInodes(t)
	b.earlier = b.findPutBack(t)
	b.undoNames(t)
	b.strays = b.findInodes(t)
	paths := slices.Sorted(maps.Keys(w.state.Files)) // folders before their content
	b.noteUnfinishedParents()
	b.restoreFirstNames(paths)
	for _, p := range paths {
		if f := w.state.Files[p]; f.LinkTo == "" && !belowAny(string(p), w.skip) {
			b.restorePath(string(p), f, t.wasChanged(string(p)))
		}
	}
	for _, p := range paths {
		if f := w.state.Files[p]; f.LinkTo != "" && !belowAny(string(p), w.skip) {
			b.recreateLink(string(p), f, t.wasChanged(string(p)) || t.wasChanged(string(f.LinkTo)))
		}
	}
	b.cleanUp(t) // before any step that may fail: a second attempt could not tell which files undoNames had moved
	b.pruneFolders()
	if b.failed != nil {
		return b.failed
	}
	if err := b.writeContents(); err != nil {
		return err
	}
	if b.setAllAttributes(); b.failed != nil {
		return b.failed
	}
	b.report.Made = b.otherFiles(paths)
	if w.o.Lost || t.lost || w.state.Lost {
		b.addProblem("/", "the list of what the job changed is not complete")
	}
	b.report.Notes = w.notes
	return w.p.sendJSON(frameResult, b.report)
}

// otherFiles returns the paths at which there is another file now than at the cut.
func (b *backer) otherFiles(paths []Name) (all []Name) {
	for _, p := range paths {
		f := b.state.Files[p]
		st, err := statLink(string(p))
		if err != nil || f.Type == Missing || !b.isUsers(st) || belowAny(string(p), b.skip) {
			continue
		}
		if same, _ := b.isSameFile(f, b.describeFile(string(p), st)); !same {
			all = append(all, p)
		}
	}
	return all
}

// restoreFirstNames gives a file that has lost its first name that name again, if another is left.
func (b *backer) restoreFirstNames(paths []Name) {
	for _, p := range paths {
		f := b.state.Files[p]
		if f.LinkTo == "" || belowAny(string(p), b.skip) || belowAny(string(f.LinkTo), b.skip) {
			continue
		}
		leader := b.state.Files[f.LinkTo]
		if _, err := statLink(string(f.LinkTo)); leader == nil || !isMissing(err) {
			continue
		}
		now, err := statLink(string(p))
		if err != nil {
			continue
		}
		if same, _ := b.isSameFile(leader, b.describeFile(string(p), now)); same {
			_ = os.Link(string(p), string(f.LinkTo)) // otherwise the file is made anew
		}
	}
}

// restorePath restores the file at a path, except for its content, which restorePath asks for, and for the attributes
// that setAttributes sets. touched: the job changed the path, or a folder above, after the cut.
func (b *backer) restorePath(p string, f *File, touched bool) {
	if f.Type == Missing || f.Type == Other {
		return // Missing: see cleanUp. Other: a socket is made with the process that listens
	}
	b.moveBack(p, f)
	st, err := statLink(p)
	if err != nil && !isMissing(err) {
		b.tolerateOrFail(p, "left alone", err)
		return
	}
	if err == nil && b.logs[[2]uint64{st.Dev, st.Ino}] {
		return
	}
	if err == nil {
		now := b.describeFile(p, st)
		same, known := b.isSameFile(f, now)
		touched = touched || isUnfinished(now.Mode, f)
		if now.Type == Dir && b.isUsers(st) && now.Mode&0o700 != 0o700 {
			_ = unix.Chmod(p, now.Mode|0o700) // to work in the folder; setAttributes takes the mode back
		}
		switch {
		case b.isUntouched(f, now, touched):
			b.report.Unchanged++
			b.done[p] = f.Type == Dir
			return
		case !b.isUsers(st):
			b.addProblemUnless(now.Type == Dir && f.Type == Dir, p, "left alone: it belongs to another user")
			return
		case known && !same && !touched && f.Type != Dir && (f.Type != Symlink || !linkIs(p, f.Target)):
			if now.Type != f.Type || now.Size != f.Size || now.Mtime != f.Mtime {
				b.addProblem(p, "left alone: another file has its place since the checkpoint, and the job did not make that file")
			}
			return
		case now.Type == f.Type && f.Type == Regular && !same && st.Nlink > 1 && touched:
			// The job has made this name a name of another file with different content.
			if err = removeEmpty(p, st); err == nil {
				err = b.recreateFile(p, f)
			}
		case b.o.Left && same && !touched && b.hasOnlyGrown(p, f, now):
			b.addProblem(p, "left alone: others have appended to it since the checkpoint")
			b.report.Unchanged++
			return
		case now.Type == f.Type && (f.Type != Symlink || linkIs(p, f.Target)):
			err = b.updateInPlace(p, f, now)
		case touched || same || !known:
			if err = removeEmpty(p, st); err == nil {
				err = b.recreateFile(p, f)
			}
		default:
			b.addProblem(p, "left alone: another file has its place since the checkpoint, and the job did not make that file")
			return
		}
	} else {
		err = b.recreateFile(p, f)
	}
	if err != nil {
		b.tolerateOrFail(p, "not put back", err)
		return
	}
	b.done[p] = true
}

// findInodes returns the paths of the job's files, by device and inode.
func (b *backer) findInodes(t *tree) map[[2]uint64]string {
	all := map[[2]uint64]string{}
	for _, p := range t.touchedPaths() {
		if st, err := statLink(p); err == nil && typeOf(st) != Dir {
			all[[2]uint64{st.Dev, st.Ino}] = p
		}
	}
	return all
}

// moveBack moves a missing file back from where the job has moved the file, if that is known.
func (b *backer) moveBack(p string, f *File) {
	if _, err := statLink(p); !isMissing(err) || b.state.Boot != b.boot || f.Type == Dir {
		return
	}
	stray := b.strays[[2]uint64{f.Dev, f.Ino}]
	if other := b.state.Files[Name(stray)]; stray == "" || other != nil && other.Type != Missing {
		return
	}
	// Another type means that the inode was given away and used again.
	if st, err := statLink(stray); err != nil || typeOf(st) != f.Type || st.Ino != f.Ino || !b.isUsers(st) {
		return
	}
	_ = unix.Renameat2(unix.AT_FDCWD, stray, unix.AT_FDCWD, p, unix.RENAME_NOREPLACE) // otherwise the file is made anew
}

func (b *backer) addProblemUnless(fine bool, p, why string) {
	if !fine {
		b.addProblem(p, why)
	}
}
func linkIs(p string, target Name) bool {
	now, err := os.Readlink(p)
	return err == nil && Name(now) == target
}

// recreateFile makes a missing file, link or folder.
func (b *backer) recreateFile(p string, f *File) error {
	if err := b.makeParents(p); err != nil {
		return err
	}
	b.noteFolderTime(p)
	b.report.Restored++
	switch f.Type {
	case Dir:
		return unix.Mkdir(p, unfinishedFolder)
	case Symlink:
		return unix.Symlink(string(f.Target), p)
	case Fifo:
		return unix.Mkfifo(p, unfinished)
	case Regular:
		fd, err := unix.Open(p, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, unfinished)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Ftruncate(fd, f.Size); err != nil {
			return err
		}
		for _, g := range f.Data {
			b.requestSegment(p, g)
		}
	case Missing, Other:
	}
	return nil
}

func (b *backer) requestSegment(p string, g Segment) {
	b.missing = append(b.missing, missingPart{wantedRange{g.Stream, g.Off, g.Size}, p, g})
}

// updateInPlace compares a file with the recorded file: a longer file is truncated, and only segments that differ are
// asked for.
func (b *backer) updateInPlace(p string, f, now *File) error {
	if f.Type != Regular {
		b.report.Unchanged++
		return nil
	}
	file, err := openFile(p, unix.O_RDWR, now)
	if err != nil {
		return err
	}
	defer file.Close()
	changed, cleared := now.Size != f.Size, false
	if changed {
		if err := file.Truncate(f.Size); err != nil {
			return err
		}
	}
	end := int64(0)
	buf := make([]byte, maxSegment)
	for _, g := range f.Data {
		zeroed, err := clearRange(file, end, g.At, buf)
		if err != nil {
			return err
		}
		n, err := readFull(int(file.Fd()), buf[:g.Size], g.At)
		if err != nil {
			return err
		}
		if int64(n) < g.Size || hashOf(buf[:n]) != g.Hash {
			b.requestSegment(p, g)
			changed = true
		}
		cleared = cleared || zeroed
		end = g.At + g.Size
	}
	zeroed, err := clearRange(file, end, f.Size, buf)
	if cleared = cleared || zeroed; cleared {
		err = errors.Join(err, file.Sync())
	}
	if changed || cleared {
		b.report.Restored++
	} else {
		b.report.Unchanged++
	}
	return err
}

// clearRange fills a part of a file with zeros, and writes only where it is not zero yet.
func clearRange(file *os.File, from, to int64, buf []byte) (changed bool, err error) {
	fd := int(file.Fd())
	for from < to {
		data, err := unix.Seek(fd, from, unix.SEEK_DATA)
		if err == unix.ENXIO { //nolint:errorlint // x/sys returns the plain errno
			return changed, nil
		}
		if err != nil {
			data = from
		}
		if data >= to {
			return changed, nil
		}
		n, err := readFull(fd, buf[:min(int64(len(buf)), to-data)], data)
		if err != nil || n == 0 {
			return changed, err
		}
		if !isZero(buf[:n]) {
			changed = true
			if unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, data, int64(n)) != nil {
				clear(buf[:n])
				if err := writeFull(fd, buf[:n], data); err != nil {
					return changed, err
				}
			}
		}
		from = data + int64(n)
	}
	return changed, nil
}

// recreateLink makes a path another name of its file again.
func (b *backer) recreateLink(p string, f *File, touched bool) {
	leader, err := statLink(string(f.LinkTo))
	if err != nil { // b.failed has the reason, if the file should be there
		b.addProblem(p, fmt.Sprintf("not put back: it was a link to %s, which is not there", f.LinkTo))
		return
	}
	now, err := statLink(p)
	switch {
	case isMissing(err):
		err = b.makeParents(p)
	case err != nil:
	case now.Dev == leader.Dev && now.Ino == leader.Ino:
		b.report.Unchanged++
		return
	case !b.isUsers(now):
		b.addProblem(p, "left alone: it belongs to another user")
		return
	default:
		if same, known := b.isSameFile(f, b.describeFile(p, now)); known && !same && !touched {
			b.addProblem(p, "left alone: another file has its place since the checkpoint, and the job did not make that file")
			return
		}
		err = removeEmpty(p, now)
	}
	if err == nil {
		err = os.Link(string(f.LinkTo), p)
	}
	if err != nil {
		b.tolerateOrFail(p, "not put back", err)
		return
	}
	b.report.Restored++
}
