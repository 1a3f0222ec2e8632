// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// lastPart is the length of the end of a file that is searched for cancel notices. Slurm writes them when it begins to
// end a step, and tasks are stopped soon after.
const lastPart = 1 << 20

// cleanOutput takes cancel notices out of the step's output files, with the user's rights. No process writes to these
// files meanwhile: the step does not run.
func (e *entrance) cleanOutput() error {
	for _, path := range e.o.Clean {
		if err := cleanFile(path); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func cleanFile(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return err // not a regular file, such as /dev/null
	}
	from := max(0, st.Size-lastPart)
	b := make([]byte, st.Size-from)
	if n, err := unix.Pread(fd, b, from); err != nil || n < len(b) {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	kept := withoutNotices(b)
	if len(kept) == len(b) {
		return nil
	}
	if n, err := unix.Pwrite(fd, kept, from); err != nil || n < len(kept) {
		return errors.Join(err, io.ErrShortWrite)
	}
	return unix.Ftruncate(fd, from+int64(len(kept)))
}

// withoutNotices drops the lines of cancel notices.
func withoutNotices(b []byte) []byte {
	kept := make([]byte, 0, len(b))
	for line := range bytes.Lines(b) {
		if line[len(line)-1] == '\n' && cancelNotice.Match(line[:len(line)-1]) {
			continue
		}
		kept = append(kept, line...)
	}
	return kept
}
