// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"path"
	"strings"
)

// Kind is the kind of a program's change to a path.
type Kind byte

// The kinds, as they are written in the list; libsingshim/shim/list.h has them too.
const (
	Created   Kind = 'c' // a file that was not there before
	Folder    Kind = 'm' // a folder, made
	Written   Kind = 'w' // was there; opened for writing, or truncated
	Appended  Kind = 'a' // was there, Size bytes long; opened only to append
	Removed   Kind = 'd' // a file or folder
	Renamed   Kind = 'r' // from Other; no file was at Path
	Replaced  Kind = 'R' // renamed from Other; a file was at Path
	Exchanged Kind = 'x' // with Other
	Linked    Kind = 'l' // a hard link to Other
	Symlinked Kind = 's' // a symbolic link, made
	Closed    Kind = 'f' // the kernel saw the file open for writing, or closed after that; ID is its identity
	Mapped    Kind = 'M' // was there at a cut, mapped for writing and sharing: its content may change from then on, and its times stay
	Unsure    Kind = '?' // a change of a kind above was about to be made
)

// Entry is a change that the job made to a path.
type Entry struct {
	Kind  Kind
	Path  string // absolute, as the job wrote the path: not resolved, not cleaned
	Other string // Renamed, Replaced, Exchanged, Linked: the other path
	Size  int64  // Appended: the length before, -1 if that is not known
	ID    uint64 // Closed: of the file, see identity
}

// TouchedFiles has the changes of a job to files in some span of time.
type TouchedFiles struct {
	Entries []Entry // in the order of the changes
	Lost    bool    // the list is not complete
	Full    bool    // Lost, because there are more entries than are read
	Until   Mark    // where the list ends
}

// Limits of a list. Paths longer than the kernel's cannot exist.
const (
	maxPath    = 4095
	maxEntries = 1_000_000
	maxTouched = 64 << 20 // bytes of memory that the entries of TouchedFiles take
)

// countBytes returns the part of maxTouched that an entry takes.
func (e Entry) countBytes() int { return 56 + len(e.Path) + len(e.Other) }

// travelling are the folders without recorded content: they are the capsule's own and are
// packed whole, or they hold no files at all.
var travelling = []string{"/tmp", "/var/tmp", "/dev", "/proc", "/sys", "/run/singularity-slurm"}

// isBelow says whether p is dir or is in dir. Both are clean.
func isBelow(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

func belowAny(p string, dirs []string) bool {
	for _, d := range dirs {
		if isBelow(p, d) {
			return true
		}
	}
	return false
}

// validPath says whether p can be a path of the job. A path that is refused here never reaches a system call.
func validPath(p string) bool {
	return len(p) > 1 && len(p) <= maxPath && p[0] == '/' && strings.IndexByte(p, 0) < 0
}

func (e Entry) isValid() bool {
	if !validPath(e.Path) {
		return false
	}
	switch e.Kind {
	case Renamed, Replaced, Exchanged, Linked:
		return validPath(e.Other)
	case Created, Folder, Written, Appended, Removed, Symlinked, Closed, Mapped, Unsure:
		return e.Other == "" || e.Kind == Unsure && validPath(e.Other)
	}
	return false
}

// cleanPath cleans a path without looking at the file system. With ".." behind a symbolic link
// the result is another file, so resolvePath resolves folders that exist first.
func cleanPath(p string) string { return path.Clean(p) }
