// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// HostMapping is memory of a process that the device server has mapped, too: the memory comes back with the process, at
// the same address. No process can make the memory shorter.
type HostMapping struct {
	Kind    string `json:"kind"`
	Address uint64 `json:"address"` // where the process has the memory; 0 of a ring at an unknown place
	Length  uint64 `json:"length"`
}

// The kinds of HostMapping.
const (
	RingMemory   = "ring"
	PinnedMemory = "pinned"
)

// OpenHostMappings opens the host mappings that a saved process has brought back as pid, for Adopt, in the order of
// p.HostMappings. The caller closes the files, and needs CAP_CHECKPOINT_RESTORE. A file that is not shared memory of
// the process's user is an error: the process can have mapped any file that it could open.
func OpenHostMappings(pid int, p SavedProcess) (_ []*os.File, err error) {
	var out []*os.File
	defer func() {
		if err != nil {
			localsock.CloseAll(out)
		}
	}()
	if len(p.HostMappings) > handles.Max { // of a server that says so
		return nil, fmt.Errorf("process %d: %d pieces of memory: %w", pid, len(p.HostMappings), ErrNonsense)
	}
	maps, err := readMappings(pid)
	if err != nil {
		return nil, err
	}
	for _, b := range p.HostMappings {
		m, err := b.findMapping(maps, 0)
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", pid, err)
		}
		f, err := openShared(pid, m.span)
		if err != nil {
			return nil, fmt.Errorf("process %d: fetch its %s at %#x: %w", pid, b.Kind, m.begin, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// openShared opens a memfd that a process has mapped. openShared looks at the file before opening it: opening can have
// an effect, and a file that the process may only read must not become writable.
func openShared(pid int, span string) (*os.File, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/map_files/%s", pid, span), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st, owner unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs), unix.Stat(fmt.Sprintf("/proc/%d", pid), &owner)); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 0 || st.Uid != owner.Uid || fs.Type != unix.TMPFS_MAGIC {
		return nil, errors.New("it is no shared memory of its own")
	}
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDWR, 0)
}

// mapping is a line of /proc/PID/maps: memory that is shared.
type mapping struct {
	span       string // as in map_files
	begin, end uint64
	offset     uint64
	device     uint64
	inode      uint64
	name       string // of a memfd, or ""
}

func readMappings(pid int) ([]mapping, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	return parseMappings(string(maps)), nil
}

// parseMappings parses the lines of maps that have the known form.
func parseMappings(maps string) []mapping {
	var out []mapping
	for line := range strings.Lines(maps) {
		f := strings.Fields(line) // range, permissions, offset, device, inode, path
		if len(f) < 6 || !strings.HasSuffix(f[1], "s") {
			continue
		}
		begin, end, _ := strings.Cut(f[0], "-")
		major, minor, _ := strings.Cut(f[3], ":")
		var n [6]uint64
		var errs [6]error
		for i, s := range []string{begin, end, f[2], major, minor} {
			n[i], errs[i] = strconv.ParseUint(s, 16, 64)
		}
		n[5], errs[5] = strconv.ParseUint(f[4], 10, 64)
		if errors.Join(errs[:]...) != nil {
			continue
		}
		name, _ := strings.CutPrefix(f[5], "/memfd:")
		if name == f[5] {
			name = ""
		}
		// map_files has no leading zeros.
		out = append(out, mapping{
			span: fmt.Sprintf("%x-%x", n[0], n[1]), begin: n[0], end: n[1], offset: n[2],
			device: unix.Mkdev(uint32(n[3]), uint32(n[4])), inode: n[5], name: name,
		})
	}
	return out
}

// errNoRing is the error for a process that has executed another program since.
var errNoRing = errors.New("it has no ring")

// findMapping returns where the process has the memory. A program that protects a part of the memory has several
// mappings: the first is enough, because the memory mapped there has a fixed length. A ring is also known by its inode;
// where the inode is not known either, any ring will do.
func (b HostMapping) findMapping(maps []mapping, inode uint64) (mapping, error) {
	for _, m := range maps {
		if m.offset != 0 || m.name == "" {
			continue
		}
		isRing := b.Kind == RingMemory && m.name == wire.MemoryName && m.end-m.begin == wire.MemorySize
		if m.begin == b.Address || isRing && (inode != 0 && m.inode == inode || inode == 0 && b.Address == 0) {
			return m, nil
		}
	}
	if b.Kind == RingMemory {
		return mapping{}, errNoRing
	}
	return mapping{}, fmt.Errorf("it has no %s memory at %#x", b.Kind, b.Address)
}

// isFile tells whether m is the memory of a file.
func (m mapping) isFile(st *unix.Stat_t) bool { return st.Ino == m.inode && st.Dev == m.device }

// listHostMappings lists the memory of the process that the server has mapped. Memory that the program has unmapped
// behind CUDA's back cannot come back.
func (p *process) listHostMappings() ([]HostMapping, error) {
	all := []HostMapping{{Kind: RingMemory, Length: wire.MemorySize}}
	for _, s := range p.Shares.Sorted() {
		all = append(all, HostMapping{PinnedMemory, uint64(s.At), uint64(len(s.Mem))})
	}
	w, ok := p.Peer.(*watchedProcess)
	if !ok {
		return all, nil
	}
	maps, err := readMappings(w.pid)
	if w.hasEnded() {
		p.endProcess("it has ended")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i, b := range all {
		m, err := b.findMapping(maps, w.ring)
		switch {
		case errors.Is(err, errNoRing):
			p.endProcess("it executes another program")
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("%w: %w", err, ErrNotSaved)
		}
		all[i].Address = m.begin
	}
	return all, nil
}

// HostMappingFile returns the n-th of the files that the server has of a process's HostMappings, for a caller that may not
// fetch it from the process: the file outlives the server and is the caller's to close.
func (s *Server) HostMappingFile(id uint64, n int) (*os.File, error) {
	s.mu.Lock()
	p := s.processes[id]
	s.mu.Unlock()
	if p == nil || p.Ring == nil {
		return nil, fmt.Errorf("the memory of process %d: %w", id, ErrAbsent)
	}
	if n == 0 {
		return driver.Duplicate(p.Ring.File())
	}
	all := p.Shares.Sorted()
	if n < 0 || n > len(all) {
		return nil, fmt.Errorf("memory %d of process %d, which has %d: %w", n, id, len(all)+1, ErrAbsent)
	}
	return driver.Duplicate(all[n-1].File)
}
