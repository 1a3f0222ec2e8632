// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// worker is the helper's side: it has the user's rights and sees the capsule's files.
type worker struct {
	p       *pipe
	o       order
	state   *State  // the last State, or the State to put back
	entries []Entry // resolved by resolveEntries
	skip    []string
	logs    map[[2]uint64]bool // device and inode of files that Slurm writes
	folders map[string]string  // by the path of a folder as in entries: its path without links
	boot    string
	fsids   map[uint64]uint64
	local   map[uint64]bool // of devices: see local
	notes   []Note
}

func newWorker(p *pipe, o order, s *State) *worker {
	w := &worker{p: p, o: o, state: s, logs: map[[2]uint64]bool{}, folders: map[string]string{}, fsids: map[uint64]uint64{}, local: map[uint64]bool{}}
	w.skip = append(w.skip, travelling...)
	for _, e := range o.Exclude {
		if validPath(string(e)) {
			w.skip = append(w.skip, cleanPath(string(e)), w.resolvePath(string(e)))
		}
	}
	for _, l := range o.Logs {
		if !validPath(string(l)) {
			continue
		}
		w.skip = append(w.skip, cleanPath(string(l)), w.resolvePath(string(l)))
		var st unix.Stat_t
		if unix.Stat(string(l), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			w.logs[[2]uint64{st.Dev, st.Ino}] = true
		}
	}
	w.boot, _ = procfs.BootID() // without a boot ID, no State is taken to be of this boot
	return w
}

// addProblem adds a note, for people: the notes have a bounded length, and not all names are whole.
func (w *worker) addProblem(p, why string) {
	if len(w.notes) < 1000 {
		w.notes = append(w.notes, Note{Name(p[:min(len(p), 512)]), why[:min(len(why), 512)]})
	}
}

// resolvePath returns where a path is: its folder with symbolic links followed, as far as the
// folder exists, and its last part unchanged.
func (w *worker) resolvePath(p string) string {
	p = strings.TrimRight(p, "/")
	at := strings.LastIndexByte(p, '/')
	if at < 0 {
		return "/"
	}
	base := p[at+1:]
	if base == "." || base == ".." {
		return w.resolveFolder(p)
	}
	return path.Join(w.resolveFolder(p[:at]), base)
}

func (w *worker) resolveFolder(dir string) string {
	dir = strings.TrimRight(dir, "/")
	if dir == "" {
		return "/"
	}
	if known, ok := w.folders[dir]; ok {
		return known
	}
	at, err := filepath.EvalSymlinks(dir)
	if err != nil {
		// The folder is not there, or not any more: a missing folder is no link.
		i := strings.LastIndexByte(dir, '/')
		at = path.Join(w.resolveFolder(dir[:i]), dir[i+1:])
	}
	w.folders[dir] = at
	return at
}

// resolveEntries resolves the entries and drops those that do not concern a State. An entry of which
// only one path concerns the State becomes an entry about the other path.
func (w *worker) resolveEntries() {
	var out []Entry
	for _, e := range w.entries {
		e.Path = w.resolvePath(e.Path)
		in := e.Path != "/" && !belowAny(e.Path, w.skip)
		if e.Other != "" {
			e.Other = w.resolvePath(e.Other)
			otherIn := e.Other != "/" && !belowAny(e.Other, w.skip)
			switch {
			case in && !otherIn:
				e.Other = ""
				if e.Kind == Replaced || e.Kind == Exchanged {
					e.Kind = Written
				} else if e.Kind != Unsure {
					e.Kind = Created
				}
			case !in && otherIn && e.Kind != Linked:
				e = Entry{Kind: Removed, Path: e.Other}
				in = true
			}
		}
		if !in {
			continue
		}
		out = append(out, e)
		if e.Kind == Unsure { // the records of completed changes name the file, not a link
			if target, ok := w.behindLink(e.Path); ok {
				out = append(out, Entry{Kind: Written, Path: target})
			}
		}
	}
	w.entries = out
}

// behindLink returns the target of a symbolic link: a program that opens the link for writing writes that file.
func (w *worker) behindLink(p string) (string, bool) {
	st, err := statLink(p)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", false
	}
	target, err := filepath.EvalSymlinks(p)
	return target, err == nil && target != "/" && !belowAny(target, w.skip)
}

func statLink(p string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Lstat(p, &st)
	return st, err
}

func isMissing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
}

func typeOf(st unix.Stat_t) Type {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return Regular
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFLNK:
		return Symlink
	case unix.S_IFIFO:
		return Fifo
	}
	return Other
}

// describeFile returns the File with the values of lstat.
func (w *worker) describeFile(p string, st unix.Stat_t) *File {
	f := &File{
		Type: typeOf(st), Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid,
		Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano(), Dev: st.Dev, Ino: st.Ino, FS: w.fileSystemOf(p, st.Dev),
	}
	if f.Type == Regular {
		f.Size = st.Size
	}
	return f
}

// File systems that are the same on several nodes, or that have the same name for themselves after
// a reboot.
var named = map[int64]bool{
	unix.NFS_SUPER_MAGIC: true, 0x0BD00BD0 /* lustre */ : true, 0x47504653 /* gpfs */ : true,
	unix.CEPH_SUPER_MAGIC: true, 0x19830326 /* beegfs */ : true, 0x7461636f /* ocfs2 */ : true,
	0x01161970 /* gfs2 */ : true, unix.CIFS_SUPER_MAGIC: true, unix.SMB2_SUPER_MAGIC: true,
	unix.AFS_FS_MAGIC: true, unix.V9FS_MAGIC: true, unix.EXT4_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true,
}

// local are the named file systems on which a file may have, after a crash of the node, the times of its last change,
// and the content before it.
var local = map[int64]bool{unix.EXT4_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, 0x7461636f /* ocfs2 */ : true, 0x01161970 /* gfs2 */ : true}

// fileSystemOf returns a name for the file system that p, of device dev, is on.
func (w *worker) fileSystemOf(p string, dev uint64) uint64 {
	id, ok := w.fsids[dev]
	if ok {
		return id
	}
	var st unix.Statfs_t
	if unix.Statfs(path.Dir(p), &st) == nil && named[st.Type] {
		id = uint64(uint32(st.Fsid.Val[0])) | uint64(uint32(st.Fsid.Val[1]))<<32
		id = id ^ uint64(st.Type)<<16 | 1
		w.local[dev] = local[st.Type]
	}
	w.fsids[dev] = id
	return id
}

// isSameFile says whether the present file now is the file of f; known is false if the file systems differ, so that
// inodes cannot tell.
func (w *worker) isSameFile(f, now *File) (same, known bool) {
	switch {
	case w.state.Boot == w.boot && f.Dev == now.Dev:
	case f.FS != 0 && f.FS == now.FS:
	default:
		return false, false
	}
	return f.Ino == now.Ino, true
}

// isUntouched says that the present file is f and was not changed since, without reading it: no user can set the time
// of the last change. But two changes within a tick of the clock have the same time, so a file that was changed right
// before the cut has to be read. A program that has a file mapped changes the file's times with its first change of a
// page, and not with later changes of that page; on a file system that keeps pages writable, as on tmpfs, perhaps with
// no change at all. touched says that a program may have opened the file since the cut. After the node's next boot, the
// times of a local file system prove nothing.
func (w *worker) isUntouched(f, now *File, touched bool) bool {
	if f.Mapped || touched && f.FS == 0 || w.local[now.Dev] && w.state.Boot != w.boot {
		return false
	}
	same, _ := w.isSameFile(f, now)
	return same && f.Type == now.Type && f.Size == now.Size && f.Mtime == now.Mtime && f.Ctime == now.Ctime &&
		f.Ctime < w.state.Time.Add(-time.Second).UnixNano()
}
