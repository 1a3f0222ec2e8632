// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"
)

// pipeError is an error of the pipe to the daemon, not of a file.
type pipeError struct{ error }

func hashOf(b []byte) Hash { return blake3.Sum256(b) }

var errAnotherFile = errors.New("it has become another file")

// openFile opens the regular file that was just looked at, and no other file. A fifo or a device
// that has come in its place neither blocks nor stays open.
func openFile(p string, flags int, want *File) (*os.File, error) {
	fd, err := unix.Open(p, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) {
		fd, err = openAnyway(p, flags, want)
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Dev != want.Dev || st.Ino != want.Ino {
		unix.Close(fd)
		return nil, cmp.Or(err, errAnotherFile)
	}
	return os.NewFile(uintptr(fd), p), nil
}

// openAnyway opens a file with a mode that does not let its own owner open the file: the owner could
// change the mode.
func openAnyway(p string, flags int, want *File) (int, error) {
	need := uint32(0o400)
	if flags&unix.O_ACCMODE != unix.O_RDONLY {
		need = 0o600
	}
	if want.Mode&need == need {
		return -1, unix.EACCES // a folder's mode, or an owner, forbids this
	}
	if err := unix.Chmod(p, want.Mode|need); err != nil {
		return -1, err
	}
	fd, err := unix.Open(p, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	return fd, errors.Join(err, unix.Chmod(p, want.Mode))
}

// openForReading opens a file for reading. The time of the last access stays, if the kernel allows O_NOATIME.
func openForReading(p string, f *File) (*os.File, error) {
	file, err := openFile(p, unix.O_RDONLY|unix.O_NOATIME, f)
	if errors.Is(err, unix.EPERM) {
		return openFile(p, unix.O_RDONLY, f)
	}
	return file, err
}

// readFull reads at off until b is full or the file ends.
func readFull(fd int, b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) {
		m, err := unix.Pread(fd, b[n:], off+int64(n))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("read: %w", err)
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n, nil
}

func writeFull(fd int, b []byte, off int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(fd, b, off)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

func isZero(b []byte) bool {
	for len(b) >= 8 {
		if b[0]|b[1]|b[2]|b[3]|b[4]|b[5]|b[6]|b[7] != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
