// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// Scan returns which files the processes pids, as the caller counts them, have open for writing
// or mapped for writing and sharing. Scan needs root. Files without a name are not in the result:
// those files travel in the images. A process that has ended is no error.
func Scan(pids []int) ([]Entry, error) {
	s := scan{seen: map[string]int{}}
	for _, pid := range pids {
		err := errors.Join(s.addDescriptors(pid), s.addMappings(pid))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return nil, fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return s.entries, nil
}

type scan struct {
	entries []Entry
	seen    map[string]int // where in entries a path is
}

func (s *scan) addEntry(e Entry) {
	if !e.isValid() || belowAny(cleanPath(e.Path), travelling) {
		return
	}
	at, ok := s.seen[e.Path]
	if !ok {
		s.seen[e.Path] = len(s.entries)
		s.entries = append(s.entries, e)
	} else if e.Kind == Mapped || e.Kind == Written && s.entries[at].Kind != Mapped {
		s.entries[at].Kind = e.Kind // the stronger kind
	}
}

func (s *scan) addDescriptors(pid int) error {
	for d, err := range procfs.Descriptors(pid) {
		if err != nil {
			return err
		}
		flags, err := d.OpenFlags()
		if err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY || flags&unix.O_PATH != 0 {
			continue // also a descriptor that was closed meanwhile
		}
		e := Entry{Kind: Written}
		if flags&unix.O_APPEND != 0 {
			e = Entry{Kind: Appended, Size: -1}
		}
		s.addLink(d.Path(), e)
	}
	return nil
}

// addLink adds the file behind a link of /proc, if the file is regular and has a name.
func (s *scan) addLink(link string, e Entry) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, link, 0, identityMask, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink == 0 {
		return
	}
	path, err := os.Readlink(link)
	if err != nil || strings.HasSuffix(path, " (deleted)") {
		return // also if the file has other names: they are not known
	}
	e.Path, e.ID = path, fileIdentity(&st)
	s.addEntry(e)
}

// addMappings adds files that are mapped shared and writable: the descriptor may be closed.
func (s *scan) addMappings(pid int) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// 7f00-7f01 rw-s 00000000 fe:00 1234   /path
		area, rest, _ := strings.Cut(line, " ")
		if len(rest) > 4 && rest[1] == 'w' && rest[3] == 's' {
			s.addLink(fmt.Sprintf("/proc/%d/map_files/%s", pid, area), Entry{Kind: Mapped})
		}
	}
}
