// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// writeContents asks for the contents that are needed, in the order in which the streams have
// them, and writes them.
func (b *backer) writeContents() error {
	slices.SortStableFunc(b.missing, func(x, y missingPart) int {
		return cmp.Or(cmp.Compare(x.Stream, y.Stream), cmp.Compare(x.Off, y.Off), cmp.Compare(x.Size, y.Size))
	})
	var wants []wantedRange
	for _, j := range b.missing {
		if len(wants) == 0 || wants[len(wants)-1] != j.wantedRange {
			wants = append(wants, j.wantedRange)
		}
	}
	if err := b.p.sendJSON(frameWants, wants); err != nil {
		return err
	}
	out := contentWriter{}
	out.syncs.SetLimit(maxSyncs)
	err := b.receiveContents(wants, &out)
	return errors.Join(err, out.syncFiles())
}

// receiveContents receives the parts that were asked for, and writes them.
func (b *backer) receiveContents(wants []wantedRange, out *contentWriter) error {
	rest := b.missing
	for _, w := range wants {
		data, err := b.p.receiveMessage(frameData)
		if err != nil {
			return err
		}
		if int64(len(data)) != w.Size {
			return fmt.Errorf("stream %s: %d bytes at %d where %d are due", w.Stream, len(data), w.Off, w.Size)
		}
		hash := hashOf(data)
		for len(rest) > 0 && rest[0].wantedRange == w {
			if hash != rest[0].seg.Hash {
				return fmt.Errorf("stream %s: at %d is not what was recorded", w.Stream, w.Off)
			}
			switch err := out.writeSegment(rest[0], data); {
			case err == nil:
				b.report.Bytes += w.Size
			case errors.Is(err, errAnotherFile) || isMissing(err): // the file was replaced or removed meanwhile
				b.addProblem(rest[0].path, "not put back: "+err.Error())
			default: // also of a file whose owner has changed: the file may have been cut off already
				return fmt.Errorf("%s: %w", rest[0].path, err)
			}
			rest = rest[1:]
		}
	}
	return nil
}

// maxSyncs bounds how many files are made durable at a time. A file system needs hardly longer for many than for one.
const maxSyncs = 16

// contentWriter writes contents into files, and makes them durable: a file server, or its quota, may refuse the written
// bytes only at that moment.
type contentWriter struct {
	path  string // of the file that was written last; the next is likely the same
	file  *os.File
	syncs errgroup.Group
}

// finishFile makes the last file durable and closes it, while others are written. syncFiles returns the error.
func (w *contentWriter) finishFile() {
	path, file := w.path, w.file
	if file == nil {
		return
	}
	w.file = nil
	w.syncs.Go(func() error {
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
}

// syncFiles waits until all files are durable, and returns the first error.
func (w *contentWriter) syncFiles() error {
	w.finishFile()
	return w.syncs.Wait()
}

func (w *contentWriter) writeSegment(j missingPart, data []byte) error {
	if w.file == nil || w.path != j.path {
		w.finishFile()
		st, err := statLink(j.path)
		if err != nil {
			return err
		}
		if w.file, err = openFile(j.path, unix.O_WRONLY, &File{Dev: st.Dev, Ino: st.Ino, Mode: st.Mode & 0o7777}); err != nil {
			return err
		}
		w.path = j.path
	}
	return writeFull(int(w.file.Fd()), data, j.seg.At)
}

// tolerable are the errors after which a path is left as it is, and noted: the user may not change the file there, the
// path leads to another file now, or the file system does not support the operation. Any other error, such as a full
// disk, makes PutBack fail: otherwise programs would go on with a file that has neither its content at the cut nor its
// later content.
var tolerable = []syscall.Errno{
	unix.EACCES, unix.EPERM, unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.EEXIST, unix.ENOTEMPTY, unix.ELOOP, unix.EXDEV,
	unix.EBUSY, unix.ETXTBSY, unix.ENOSYS, unix.EOPNOTSUPP,
}

func isTolerable(err error) bool {
	return errors.Is(err, errAnotherFile) || slices.ContainsFunc(tolerable, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// tolerateOrFail notes why a path is not as at the cut, if that can be tolerated. Otherwise PutBack fails, after it has
// tried all other paths.
func (b *backer) tolerateOrFail(p, what string, err error) {
	switch {
	case isTolerable(err):
		b.addProblem(p, what+": "+err.Error())
	case b.failed == nil:
		b.failed = fmt.Errorf("%s: %s: %w", p, what, err)
	}
}

// setAllAttributes sets the attributes of all paths that were put back, the attributes of a folder after its content, and
// the times of the folders on the way.
func (b *backer) setAllAttributes() {
	for _, p := range slices.Backward(slices.Sorted(maps.Keys(b.done))) {
		f := b.state.Parents[Name(p)]
		if f == nil {
			f = b.state.Files[Name(p)]
		}
		if b.done[p] {
			b.setAttributes(p, f)
		}
	}
	for dir, mtime := range b.times {
		if !b.done[dir] {
			if err := setMtime(dir, mtime); err != nil {
				b.tolerateOrFail(dir, "time not put back", err)
			}
		}
	}
}

// setMtime sets the time of a path's last change.
func setMtime(p string, mtime int64) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(mtime)}
	return unix.UtimesNanoAt(unix.AT_FDCWD, p, times, unix.AT_SYMLINK_NOFOLLOW)
}

// setAttributes sets group, extended attributes, mode and times, when neither the file nor any file below it is changed any more.
func (b *backer) setAttributes(p string, f *File) {
	now, err := statLink(p)
	if err != nil || typeOf(now) != f.Type || !b.isUsers(now) {
		return
	}
	if now.Gid != f.GID {
		_ = unix.Lchown(p, -1, int(f.GID)) // the user may have left the group
	}
	if f.Xattrs != nil && (f.Type == Regular || f.Type == Dir) {
		b.setXattrs(p, now.Mode&0o7777, f.Xattrs)
	}
	if f.Type != Symlink {
		if now, err = statLink(p); err == nil && now.Mode&0o7777 != f.Mode {
			err = unix.Chmod(p, f.Mode)
		}
	}
	if now.Mtim.Nano() != f.Mtime {
		err = errors.Join(err, setMtime(p, f.Mtime))
	}
	if err != nil {
		b.tolerateOrFail(p, "mode or time not put back", err)
	}
}

// setXattrs sets the extended attributes of a path. setAttributes sets the mode afterwards.
func (b *backer) setXattrs(p string, mode uint32, want Attributes) {
	const what = "extended attributes not put back"
	switch err := restoreXattrs(p, mode, want); {
	case err == nil:
	case cannotKeep(err):
		b.addProblem(p, what+": "+err.Error())
	default:
		b.tolerateOrFail(p, what, err)
	}
}
