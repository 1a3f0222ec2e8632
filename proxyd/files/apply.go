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

	"golang.org/x/sys/unix"
)

// writeContents asks for the contents that are needed, in the order in which the streams have
// them, and writes them.
func (b *backer) writeContents() error {
	slices.SortStableFunc(b.missing, func(x, y missingPart) int {
		return cmp.Or(cmp.Compare(x.Stream, y.Stream), cmp.Compare(x.Off, y.Off), cmp.Compare(x.Size, y.Size))
	})
	var wants []want
	for _, j := range b.missing {
		if len(wants) == 0 || wants[len(wants)-1] != j.want {
			wants = append(wants, j.want)
		}
	}
	if err := b.p.sendJSON(frameWants, wants); err != nil {
		return err
	}
	t := target{}
	defer t.closeFolders()
	rest := b.missing
	for _, w := range wants {
		data, err := b.p.receiveOf(frameData)
		if err != nil {
			return err
		}
		if int64(len(data)) != w.Size {
			return fmt.Errorf("stream %s: %d bytes at %d where %d are due", w.Stream, len(data), w.Off, w.Size)
		}
		hash := hashOf(data)
		for len(rest) > 0 && rest[0].want == w {
			if hash != rest[0].seg.Hash {
				return fmt.Errorf("stream %s: at %d is not what was recorded", w.Stream, w.Off)
			}
			if err := t.writeSegment(rest[0], data); err != nil {
				b.addProblem(rest[0].path, "not put back: "+err.Error())
			} else {
				b.report.Bytes += w.Size
			}
			rest = rest[1:]
		}
	}
	return nil
}

// target is the file that was written last; the next is likely the same.
type target struct {
	path string
	file *os.File
}

func (t *target) closeFolders() {
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
}

func (t *target) writeSegment(j missingPart, data []byte) error {
	if t.file == nil || t.path != j.path {
		t.closeFolders()
		st, err := statLink(j.path)
		if err != nil {
			return err
		}
		if t.file, err = openFile(j.path, unix.O_WRONLY, &File{Dev: st.Dev, Ino: st.Ino, Mode: st.Mode & 0o7777}); err != nil {
			return err
		}
		t.path = j.path
	}
	return writeFull(int(t.file.Fd()), data, j.seg.At)
}

// finishAll sets the attributes of all that is ours to finish, of folders after what is in them.
func (b *backer) finishAll() {
	for _, p := range slices.Backward(slices.Sorted(maps.Keys(b.done))) {
		f := b.state.Parents[Name(p)]
		if f == nil {
			f = b.state.Files[Name(p)]
		}
		if b.done[p] {
			b.setAttributes(p, f)
		}
	}
}

// setAttributes sets mode, group and times, when nothing in or below changes any more.
func (b *backer) setAttributes(p string, f *File) {
	now, err := statLink(p)
	if err != nil || typeOf(now) != f.Type || !b.isUsers(now) {
		return
	}
	if now.Gid != f.GID {
		_ = unix.Lchown(p, -1, int(f.GID)) // he may have left the group
	}
	if f.Type != Symlink {
		if now, err = statLink(p); err == nil && now.Mode&0o7777 != f.Mode {
			err = unix.Chmod(p, f.Mode)
		}
	}
	if now.Mtim.Nano() != f.Mtime {
		times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(f.Mtime)}
		err = errors.Join(err, unix.UtimesNanoAt(unix.AT_FDCWD, p, times, unix.AT_SYMLINK_NOFOLLOW))
	}
	if err != nil {
		b.addProblem(p, "mode or time not put back: "+err.Error())
	}
}
