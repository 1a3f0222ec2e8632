// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// CRIU opens a file again by its path and compares size and mode. The user decides which file is there by then: a link,
// in the path or at its end, leads anywhere. So a dump notes the kernel's data of each file that a process has open or
// mapped, and of the folder that the process is in. A restore compares before the processes get the user's rights:
// until then no other process can reach their open files.

// OpenedFile is a file that a program has open or mapped, or a folder that the program is in.
type OpenedFile struct {
	// Path is the kernel's path of the file, without links. The path of a removed file ends with " (deleted)". A path that
	// is not UTF-8 is quoted as in Go.
	Path string `json:"path"`
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
	Mode uint32 `json:"mode"`           // type and permissions
	Rdev uint64 `json:"rdev,omitempty"` // of a device
	// Same is, if not 0, the number, from 1, of the first file in Image.Opened that is this file by
	// another path. For a process that maps the file, or was executed from it, criu restores from
	// one of these paths.
	Same int `json:"same,omitempty"`
}

// Places are where a process has files. Numbers are indices of Image.Opened.
type Places struct {
	Descriptors map[int]int `json:"descriptors"`
	MayGrow     []int       `json:"may_grow,omitempty"` // ordered; descriptors of files that may be longer at the restore
	Mapped      []int       `json:"mapped"`             // ordered
	Cwd         int         `json:"cwd"`
	Root        int         `json:"root"`
	Exe         int         `json:"exe"`
}

const removed = " (deleted)"

// showPath is a path as in OpenedFile.
func showPath(link string) string {
	if utf8.ValidString(link) && !strings.HasPrefix(link, `"`) {
		return link
	}
	return strconv.Quote(link)
}

// openedFiles collects the files that processes have open.
type openedFiles struct {
	opened []OpenedFile
	index  map[OpenedFile]int // without Same
	first  map[fileID]int
	mounts *mounts.Table
}

// fileID distinguishes the files that exist at the same time.
type fileID struct{ device, inode uint64 }

// newOpenedFiles is for processes of the capsule with this init.
func newOpenedFiles(init int) (*openedFiles, error) {
	table, err := mounts.Of(init)
	return &openedFiles{index: map[OpenedFile]int{}, first: map[fileID]int{}, mounts: table}, err
}

// statLink returns the file that a link of /proc leads to. A user's server of a file system is not asked: it may answer
// all but root, and the daemon's thread would wait forever. Another server, for example of NFS, is asked, because
// another node may have changed the file since. The process stands still, so both calls see the same file.
func (s *openedFiles) statLink(link string) (mounts.File, error) {
	f, err := mounts.Stat(link)
	if err != nil || !s.mounts.IsServedBySystem(f) {
		return f, err
	}
	var st unix.Stat_t
	if err := unix.Stat(link, &st); err != nil {
		return f, err
	}
	f.Mode, f.UID, f.GID = st.Mode, st.Uid, st.Gid
	return f, nil
}

// addLink adds the file that a link of /proc leads to. ok is false if that file is nameless, or gone.
func (s *openedFiles) addLink(link string) (index int, ok bool, err error) {
	to, err := os.Readlink(link)
	if err != nil || isNameless(to) {
		return 0, false, ignoreGone(err)
	}
	st, err := s.statLink(link)
	if err != nil {
		return 0, false, &fs.PathError{Op: "stat", Path: to, Err: err}
	}
	o := OpenedFile{Path: showPath(to), UID: st.UID, GID: st.GID, Mode: st.Mode}
	if kind := st.Kind(); kind == unix.S_IFCHR || kind == unix.S_IFBLK {
		o.Rdev = st.Rdev
	}
	if strings.HasPrefix(to, "/proc/") || strings.HasPrefix(to, "/sys/") {
		o = OpenedFile{Path: o.Path, Mode: st.Mode & unix.S_IFMT} // owner and permissions change with the process
	}
	if at, known := s.index[o]; known {
		return at, true, nil
	}
	at := len(s.opened)
	s.index[o] = at
	id := fileID{st.Device, st.Inode}
	if first, known := s.first[id]; known {
		o.Same = first + 1
	} else {
		s.first[id] = at
	}
	s.opened = append(s.opened, o)
	return at, true, nil
}

// readOpenPlaces returns where a process has files. host is its PID in this process's namespace.
func (s *openedFiles) readOpenPlaces(host int) (*Places, error) {
	dir := fmt.Sprintf("/proc/%d/", host)
	p := &Places{Descriptors: map[int]int{}}
	for name, to := range map[string]*int{"cwd": &p.Cwd, "root": &p.Root, "exe": &p.Exe} {
		at, ok, err := s.addLink(dir + name)
		if err != nil {
			return nil, err
		}
		if *to = at; !ok {
			*to = -1
		}
	}
	for d, err := range procfs.Descriptors(host) {
		if err != nil {
			return nil, err
		}
		at, ok, err := s.addLink(d.Path())
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if p.Descriptors[d.Number] = at; mayDescriptorGrow(d, s.opened[at].Mode) {
			p.MayGrow = append(p.MayGrow, d.Number)
		}
	}
	ranges, err := mappedRanges(dir + "maps")
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	for _, r := range ranges {
		at, ok, err := s.addLink(dir + "map_files/" + r)
		if err != nil {
			return nil, err
		}
		if ok {
			seen[at] = true
		}
	}
	p.Mapped = slices.Sorted(maps.Keys(seen))
	return p, nil
}

// maxDescriptors bounds the descriptors of files of a program's processes together: the list is in this process's
// memory, outside of the job's cgroup.
const maxDescriptors = 1 << 20

// recordProcesses records in i the properties of its processes that are in no image: their open files, their
// attributes, their semaphores and their libraries. The processes stand still.
func (i *Image) recordProcesses(init int) error {
	members, err := listMembers(init)
	if err != nil {
		return err
	}
	s, err := newOpenedFiles(init)
	if err != nil {
		return err
	}
	i.Libraries = map[string]library{}
	all := 0
	for n, p := range i.Processes {
		m, there := members[p.PID]
		if !there || m.zombie {
			continue
		}
		if i.Processes[n].Places, err = s.readOpenPlaces(m.host); err != nil {
			return fmt.Errorf("process %d (%s): %w", p.PID, p.Name, err)
		}
		if all += len(i.Processes[n].Places.Descriptors); all > maxDescriptors {
			return fmt.Errorf("the program's processes have more than %d descriptors of files open", maxDescriptors)
		}
		if err := i.Processes[n].addAttributes(m.host); err != nil {
			return fmt.Errorf("process %d (%s): attributes: %w", p.PID, p.Name, err)
		}
		if i.Processes[n].Semaphores, err = listSemaphores(m.host); err != nil {
			return fmt.Errorf("process %d (%s): %w", p.PID, p.Name, err)
		}
		i.Processes[n].Detached = isDetached(m.host)
		if err := s.addLibraries(m.host, i.Libraries); err != nil {
			return fmt.Errorf("process %d (%s): %w", p.PID, p.Name, err)
		}
	}
	i.Opened = s.opened
	return i.boundSemaphores()
}

// compareOpened returns an error if the files of restored processes are not those of the dump. The processes stand
// still, and have criu's rights. An image without Places is not compared. renamed are files that have another name than
// in the image.
func (i *Image) compareOpened(init int, renamed map[string]string) error {
	members, err := listMembers(init)
	if err != nil {
		return err
	}
	was := &Image{Opened: slices.Clone(i.Opened)}
	for n, o := range was.Opened {
		was.Opened[n].Path = cmp.Or(renamed[o.Path], o.Path)
	}
	now, err := newOpenedFiles(init)
	if err != nil {
		return err
	}
	for _, p := range i.Processes {
		if p.Places == nil {
			continue
		}
		m, there := members[p.PID]
		if !there {
			return fmt.Errorf("process %d (%s) is not there", p.PID, p.Name)
		}
		places, err := now.readOpenPlaces(m.host)
		if err == nil {
			err = was.compareProcess(p.Places, places, now.opened)
		}
		if err != nil {
			return fmt.Errorf("process %d (%s): %w", p.PID, p.Name, err)
		}
	}
	return nil
}

func (i *Image) compareProcess(was, is *Places, now []OpenedFile) error {
	pick := func(all []OpenedFile, at int) (OpenedFile, error) {
		if at < 0 || at >= len(all) {
			return OpenedFile{}, fmt.Errorf("%w: file %d of %d", errImage, at, len(all))
		}
		return all[at], nil
	}
	same := func(a, b int) error {
		if a < 0 && b < 0 {
			return nil
		}
		x, err := pick(i.Opened, a)
		if err != nil {
			return err
		}
		y, err := pick(now, b)
		if err != nil {
			return &ChangedError{x.Path, "could not be opened again"}
		}
		return i.compareAny(a, x, y)
	}
	for _, pair := range [][2]int{{was.Exe, is.Exe}, {was.Root, is.Root}, {was.Cwd, is.Cwd}} {
		if err := same(pair[0], pair[1]); err != nil {
			return err
		}
	}
	for _, fd := range slices.Sorted(maps.Keys(was.Descriptors)) {
		at, open := is.Descriptors[fd]
		if !open {
			at = -1
		}
		if err := same(was.Descriptors[fd], at); err != nil {
			return err
		}
	}
	return i.compareMapped(was.Mapped, is.Mapped, now)
}

// compareAny compares the file now of a process with file number at of the image, x, by each of the paths that x had.
// The error is the one for x's own path.
func (i *Image) compareAny(at int, x, now OpenedFile) error {
	err := x.compareFile(now)
	if err == nil || x.Path == now.Path {
		return err
	}
	for _, other := range i.samePaths(at) {
		if other.compareFile(now) == nil {
			return nil
		}
	}
	return err
}

// samePaths returns the entries, one for each path, of the file number at.
func (i *Image) samePaths(at int) []OpenedFile {
	first := func(at int) int {
		if same := i.Opened[at].Same; same > 0 {
			return same - 1
		}
		return at
	}
	var all []OpenedFile
	for n, o := range i.Opened {
		if first(n) == first(at) {
			all = append(all, o)
		}
	}
	return all
}

// compareMapped compares the sets of mapped files, not their addresses: CRIU restores addresses by number.
func (i *Image) compareMapped(was, is []int, now []OpenedFile) error {
	mapped := map[string][]OpenedFile{}
	expected := map[string]bool{}
	gone := 0 // mapped files that were removed have any name afterwards
	for _, at := range is {
		o := now[at]
		if strings.HasSuffix(o.Path, removed) {
			gone++
			continue
		}
		mapped[o.Path] = append(mapped[o.Path], o)
	}
	for _, at := range was {
		if at < 0 || at >= len(i.Opened) {
			return fmt.Errorf("%w: file %d of %d", errImage, at, len(i.Opened))
		}
		o := i.Opened[at]
		if strings.HasSuffix(o.Path, removed) {
			gone--
			continue
		}
		found := false
		for _, other := range i.samePaths(at) {
			for _, there := range mapped[other.Path] {
				if err := other.compareFile(there); err != nil {
					return err
				}
				found, expected[other.Path] = true, true
			}
		}
		if !found {
			return &ChangedError{o.Path, "another file is mapped in its place"}
		}
	}
	for path := range mapped {
		if !expected[path] {
			return &ChangedError{path, "is mapped, and was not at the checkpoint"}
		}
	}
	if gone > 0 {
		return errors.New("a removed file is mapped that was not at the checkpoint")
	}
	return nil
}

// compareFile returns an error if a file has changed. criu makes a removed file again, under some name: the file must
// have no name now, and its other properties must be as before.
func (o OpenedFile) compareFile(now OpenedFile) error {
	changed := func(format string, args ...any) error {
		return &ChangedError{strings.TrimSuffix(o.Path, removed), fmt.Sprintf(format, args...)}
	}
	wasRemoved := strings.HasSuffix(o.Path, removed)
	kind := o.Mode & unix.S_IFMT
	switch {
	case wasRemoved && !strings.HasSuffix(now.Path, removed):
		return changed("had been removed at the checkpoint, and is %s now", now.Path)
	case !wasRemoved && o.Path != now.Path:
		return changed("leads to %s now", now.Path)
	case kind != now.Mode&unix.S_IFMT:
		return changed("is another kind of file than at the checkpoint")
	case o.Rdev != now.Rdev:
		return changed("is device %d:%d, was %d:%d at the checkpoint", unix.Major(now.Rdev), unix.Minor(now.Rdev), unix.Major(o.Rdev), unix.Minor(o.Rdev))
	case o.UID != now.UID:
		return changed("belongs to %s, was %s's at the checkpoint", userName(now.UID), userName(o.UID))
	case kind == unix.S_IFCHR || kind == unix.S_IFBLK:
		return nil // groups and permissions of devices are the node's
	case o.GID != now.GID:
		return changed("belongs to group %s, was of %s at the checkpoint", groupName(now.GID), groupName(o.GID))
	case o.Mode != now.Mode:
		return changed("has permissions %04o, had %04o at the checkpoint", now.Mode&0o7777, o.Mode&0o7777)
	}
	return nil
}
