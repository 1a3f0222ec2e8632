// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Room is space reserved for a share. The reservation ends with the process.
type Room struct {
	stage *Stage
	id    store.ID
	bytes uint64
}

// Reserve reserves n bytes for a share, out of the space that is free and not reserved for other
// shares. Without enough space the error is a *store.SpaceError.
func (s *Stage) Reserve(id store.ID, n uint64) (*Room, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free, err := s.freeBytes()
	if err != nil {
		return nil, err
	}
	e := &store.SpaceError{Free: free, Need: n}
	for r := range s.rooms {
		written, err := s.measureShare(r.id)
		if err != nil {
			return nil, err
		}
		e.Reserved += r.bytes - min(r.bytes, written)
	}
	if e.Reserved > free || free-e.Reserved < n {
		return nil, e
	}
	r := &Room{s, id, n}
	s.rooms[r] = struct{}{}
	return r, nil
}

// Release ends the reservation of the space that is not used yet. Release may be called twice.
func (r *Room) Release() {
	r.stage.mu.Lock()
	defer r.stage.mu.Unlock()
	delete(r.stage.rooms, r)
}

// sparedPart is the part of a node's memory that shares do not use: 1/spared.
const sparedPart = 20

// freeBytes returns the space for shares, without regard to reservations.
func (s *Stage) freeBytes() (uint64, error) {
	var f unix.Statfs_t
	if err := unix.Statfs(s.dir, &f); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: s.dir, Err: err}
	}
	free := f.Bavail * uint64(f.Bsize)
	if s.memory {
		total, available, err := memoryInfo()
		if err != nil {
			return 0, err
		}
		free = min(free, available-min(available, total/sparedPart))
	}
	if s.size == 0 {
		return free, nil
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, err
	}
	var used uint64
	for _, e := range entries {
		n, err := folderSize(filepath.Join(s.dir, e.Name()))
		if err != nil {
			return 0, err
		}
		used += n
	}
	return min(free, s.size-min(s.size, used)), nil
}

// measureShare returns the bytes that a share with a reservation has used.
func (s *Stage) measureShare(id store.ID) (uint64, error) {
	made, err := folderSize(s.sharePath(id) + beingMade)
	done, also := folderSize(s.sharePath(id))
	return made + done, errors.Join(err, also)
}

// folderSize returns the bytes of a share's files. A file that is removed meanwhile counts 0.
func folderSize(dir string) (uint64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return 0, nil
	}
	var sum uint64
	for _, e := range entries {
		st, err := e.Info()
		if err == nil {
			sum += uint64(max(0, st.Size()))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	return sum, err
}

// memoryInfo returns the node's memory, and the part that is available now.
func memoryInfo() (total, available uint64, err error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kib); n == 1 {
			total = kib << 10
		}
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			available = kib << 10
		}
	}
	if total == 0 || available == 0 {
		return 0, 0, errors.New("/proc/meminfo: neither MemTotal nor MemAvailable")
	}
	return total, available, nil
}
