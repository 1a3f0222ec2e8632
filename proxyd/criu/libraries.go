// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// The C library knows a library that it has loaded by the device and the inode of its file, which it keeps behind the
// library's entry in its list (l_file_id of glibc's include/link.h, dev and ino of musl's ldso/dynlink.c). On another
// node the numbers are different. Then dlopen by another path takes the library for one that is not loaded: it loads
// the library a second time, or does not find it if it may not load any (RTLD_NOLOAD, as Python's threadpoolctl asks).
//
// So a dump notes the numbers of each file with code, and a restore to a node where they are different writes the new
// ones into the list. The list is in the program's memory, and may have been overwritten by the program: memory that
// does not look like a list is left alone, and only those numbers are ever overwritten. An entry without them, such as
// the program's own, is not changed.

// library is a file that a program runs code from.
type library struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// encodeNumbers returns the numbers as the C library has them in memory.
func (l library) encodeNumbers() []byte {
	return binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, l.Device), l.Inode)
}

const (
	maxLibraries = 1 << 14 // entries in the lists of a process
	maxLists     = 64      // a list for each namespace of dlmopen(3)

	// entrySize is the length, from an entry's beginning, in which the numbers are looked for. Only the C library knows
	// how large an entry is; in glibc 2.31 to 2.42 it is 1100 to 1200 bytes.
	entrySize = 1280

	// maxHeaders is the largest number of program headers, and of entries of the dynamic section, that are read.
	maxHeaders = 256
)

// addLibraries adds the files that a process runs code from to all, by their paths.
func (s *openedFiles) addLibraries(host int, all map[string]library) error {
	dir := fmt.Sprintf("/proc/%d/", host)
	b, err := os.ReadFile(dir + "maps")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 6) // address perms offset device inode path
		if len(words) < 6 || !strings.Contains(words[1], "x") || words[4] == "0" {
			continue
		}
		path := strings.TrimLeft(words[5], " ")
		if _, known := all[path]; known || isNameless(path) {
			continue
		}
		st, err := s.statLink(dir + "map_files/" + trimRange(words[0]))
		if err != nil {
			continue // the process runs, and has unmapped the file
		}
		all[path] = library{st.Device, st.Inode}
	}
	return nil
}

// trimRange is a range of addresses as in map_files.
func trimRange(r string) string {
	from, to, _ := strings.Cut(r, "-")
	trim := func(s string) string {
		if s = strings.TrimLeft(s, "0"); s == "" {
			return "0"
		}
		return s
	}
	return trim(from) + "-" + trim(to)
}

// renewLibraries has the C library of restored processes know libraries by the numbers that their files have on this
// node. The processes stand still. Errors are ignored: the lists then stay as they are.
func (i *Image) renewLibraries(init int) {
	if len(i.Libraries) == 0 {
		return
	}
	members, err := listMembers(init)
	if err != nil {
		return
	}
	s, err := newOpenedFiles(init)
	if err != nil {
		return
	}
	now := map[string]library{}
	var restored []member
	for _, p := range i.Processes {
		if m, there := members[p.PID]; there && !m.zombie && s.addLibraries(m.host, now) == nil {
			restored = append(restored, m)
		}
	}
	changed := changes{}
	for path, was := range i.Libraries {
		if is, mapped := now[path]; mapped && is != was {
			changed[string(was.encodeNumbers())] = is.encodeNumbers()
		}
	}
	if len(changed) == 0 {
		return
	}
	for _, m := range restored {
		if memory, err := s.readProcessMemory(m.host); err == nil {
			memory.renewLists(memory.findDebug(), changed)
		}
	}
}

// changes maps old numbers to the numbers that replace them, both as they are in memory. A program may have any number
// of them.
type changes map[string][]byte

// processMemory is the part of a process's memory that may be read: not the mappings of files that a server of the
// user's provides. Such a server may answer all but root, and the daemon's thread would wait forever.
type processMemory struct {
	host  int
	parts []addressRange // ordered
}

// addressRange is a range of addresses, the end not included.
type addressRange struct{ begin, end uint64 }

// readProcessMemory returns the parts of a process's memory that may be read.
func (s *openedFiles) readProcessMemory(host int) (processMemory, error) {
	m := processMemory{host: host}
	dir := fmt.Sprintf("/proc/%d/", host)
	b, err := os.ReadFile(dir + "maps")
	if err != nil {
		return m, err
	}
	answers := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 6) // address perms offset device inode path
		if len(words) < 6 {
			continue
		}
		if file := words[3] + " " + words[4]; words[4] != "0" {
			known, seen := answers[file]
			if !seen {
				st, err := mounts.Stat(dir + "map_files/" + trimRange(words[0]))
				known = err == nil && s.mounts.IsServedBySystem(st)
				answers[file] = known
			}
			if !known {
				continue
			}
		}
		var p addressRange
		if _, err := fmt.Sscanf(words[0], "%x-%x", &p.begin, &p.end); err == nil {
			m.parts = append(m.parts, p)
		}
	}
	return m, nil
}

// read reads memory from an address on into b, and returns the part of b that could be read.
func (m processMemory) read(at uint64, b []byte) []byte {
	n, found := slices.BinarySearchFunc(m.parts, at, func(p addressRange, at uint64) int {
		switch {
		case at < p.begin:
			return 1
		case at >= p.end:
			return -1
		}
		return 0
	})
	if !found {
		return nil
	}
	b = b[:min(uint64(len(b)), m.parts[n].end-at)]
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	read, err := unix.ProcessVMReadv(m.host, local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	if err != nil || read < 0 {
		return nil
	}
	return b[:read]
}

// readNumber reads a number at an address, 0 if the address cannot be read.
func (m processMemory) readNumber(at uint64) uint64 {
	var b [8]byte
	if len(m.read(at, b[:])) < len(b) {
		return 0
	}
	return binary.NativeEndian.Uint64(b[:])
}

// renewLists changes the entries of the C library's lists, from a struct r_debug on, and returns the number of entries
// that it has read. Writing needs the process's own right to that memory.
func (m processMemory) renewLists(debug uint64, changed changes) (seen int) {
	const version, first, next, extended = 0, 8, 40, 2 // struct r_debug of link.h
	for lists := 0; debug != 0 && lists < maxLists; lists++ {
		// The entries of a list may form a circle, and so may the lists.
		for entry := m.readNumber(debug + first); entry != 0 && seen < maxLibraries; seen++ {
			m.renewEntry(entry, changed)
			entry = m.readNumber(entry + 24) // l_next of struct link_map
		}
		if uint32(m.readNumber(debug+version)) < extended {
			break
		}
		debug = m.readNumber(debug + next)
	}
	return seen
}

// renewEntry changes the numbers in an entry.
func (m processMemory) renewEntry(entry uint64, changed changes) {
	const step = 8
	b := m.read(entry, make([]byte, entrySize))
	for at := 0; at+2*step <= len(b); at += step {
		is, found := changed[string(b[at:at+2*step])]
		if !found {
			continue
		}
		local := []unix.Iovec{{Base: &is[0], Len: uint64(len(is))}}
		_, _ = unix.ProcessVMWritev(m.host, local, []unix.RemoteIovec{{Base: uintptr(entry) + uintptr(at), Len: len(is)}}, 0)
		return
	}
}

// findDebug returns the address of the C library's struct r_debug, 0 if the program has none, such as a static program.
func (m processMemory) findDebug() uint64 {
	const (
		atPhdr, atPhent, atPhnum = 3, 4, 5
		ptDynamic, ptPhdr        = 2, 6
		dtNull, dtDebug          = 0, 21
		headerSize               = 56 // of a 64-bit program
	)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", m.host))
	if err != nil {
		return 0
	}
	aux := map[uint64]uint64{}
	for ; len(b) >= 16; b = b[16:] {
		aux[binary.NativeEndian.Uint64(b)] = binary.NativeEndian.Uint64(b[8:])
	}
	if aux[atPhent] != headerSize || aux[atPhnum] > maxHeaders {
		return 0
	}
	var base, dynamic uint64
	for n := range aux[atPhnum] {
		header := aux[atPhdr] + n*headerSize
		switch uint32(m.readNumber(header)) { // p_type; p_vaddr is 16 bytes behind it
		case ptPhdr:
			base = aux[atPhdr] - m.readNumber(header+16)
		case ptDynamic:
			dynamic = m.readNumber(header + 16)
		}
	}
	if dynamic == 0 {
		return 0
	}
	for n := range uint64(maxHeaders) {
		entry := base + dynamic + 16*n
		switch m.readNumber(entry) {
		case dtNull:
			return 0
		case dtDebug:
			return m.readNumber(entry + 8)
		}
	}
	return 0
}

// mappedRanges returns one range of addresses for each file that a process has mapped, as named in map_files.
func mappedRanges(maps string) ([]string, error) {
	f, err := os.Open(maps)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []string
	seen := map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// address perms offset device inode path
		words := strings.SplitN(lines.Text(), " ", 6)
		if len(words) < 6 || words[4] == "0" {
			continue
		}
		file := words[3] + " " + words[4] + " " + words[5]
		if seen[file] {
			continue
		}
		seen[file] = true
		all = append(all, strings.Clone(trimRange(words[0])))
	}
	return all, lines.Err()
}

// isNameless tells whether the target of a link in /proc was not opened by a path: a pipe, a socket, or memory to which
// the kernel gives a name. No user can make a file in /.
func isNameless(link string) bool {
	if !strings.HasPrefix(link, "/") || link == "/dev/zero"+removed {
		return true
	}
	return slices.ContainsFunc([]string{"/memfd:", "/SYSV", "/[aio]", "/anon_hugepage"}, func(p string) bool { return strings.HasPrefix(link, p) })
}
