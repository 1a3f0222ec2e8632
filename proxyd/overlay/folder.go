// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// folder is a job's folder, by descriptor, so that the folder may be moved. Removing a missing file
// is no error.
type folder struct{ *os.File }

func openFolder(path string) (*folder, error) {
	f, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	return &folder{f}, err
}

// listNames lists the folder anew.
func (d *folder) listNames() ([]string, error) {
	if _, err := d.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return d.Readdirnames(-1)
}

func (d *folder) mkdir(name string) error {
	if err := unix.Mkdirat(int(d.Fd()), name, 0o700); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// writeFile creates a file, durably.
func (d *folder) writeFile(name, content string) error {
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.WriteString(content)
	return errors.Join(err, f.Sync(), f.Close(), d.Sync())
}

func (d *folder) remove(name string) error { return d.unlink(name, 0) }
func (d *folder) rmdir(name string) error  { return d.unlink(name, unix.AT_REMOVEDIR) }

func (d *folder) unlink(name string, flags int) error {
	if err := unix.Unlinkat(int(d.Fd()), name, flags); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// decidedBlock returns the block that the job has, if any.
func (d *folder) decidedBlock() (b block, ok bool, err error) {
	fd, err := unix.Openat(int(d.Fd()), decided, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return b, false, nil
	}
	if err != nil {
		return b, false, fmt.Errorf("%s: %w", decided, err)
	}
	f := os.NewFile(uintptr(fd), decided)
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1024))
	if err != nil {
		return b, false, err
	}
	if b, _, ok = parseIntention(string(text)); !ok {
		return b, false, fmt.Errorf("%s: %q is no block", decided, text)
	}
	return b, true, nil
}

// readNames lists a folder without hidden names.
func readNames(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") { // .nfs…: a removed file that is still open
			names = append(names, e.Name())
		}
	}
	return names, nil
}
