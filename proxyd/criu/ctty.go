// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/checkpoint-restore/go-criu/v7/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/regfile"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// An interactive dash, less and ssh open /dev/tty, which is the terminal of their session. CRIU refuses to dump such a
// file if the first process that CRIU finds with a side of the terminal is another process (tty_verify_ctty in
// criu/tty.c): expect, script and tmux, which made the terminal, are found first. So a dump tells criu that the file is
// an external terminal, of which criu notes the flags and the settings. A restore adds the path to the image. Then criu
// recognizes the file by its device number, and opens /dev/tty in a process that has the terminal (terminals.go). An
// open /dev/tty that is not the terminal of its process is left to criu, which refuses.

// ttyPath is the terminal of the session of the process that opens the path.
const ttyPath = "/dev/tty"

// ptsMajor is the major device number of pseudo terminals.
const ptsMajor = 136

// holder is a process that has ttyPath open.
type holder struct {
	terminal    int // the number of its terminal, -1 if the process has no terminal
	descriptors []int
}

// ownTerminals returns criu's names of the open ttyPath of a program, and whether the program drives terminals. names
// is empty if one of the files could not be restored in this way.
func ownTerminals(p Program) (names []string, drives bool, err error) {
	members, err := listMembers(p.Init)
	if err != nil {
		return nil, false, err
	}
	driven := map[int]bool{}
	holders := map[int]holder{}
	for _, m := range findDescendants(members, []int{p.PID}) {
		if m.zombie {
			continue
		}
		h := holder{terminal: readTerminal(m.host)}
		found, err := h.collectTerminals(m.host, driven)
		if err != nil {
			return nil, false, fmt.Errorf("process %d (%s): %w", m.pid, m.name, err)
		}
		names = append(names, found...)
		if len(h.descriptors) > 0 {
			holders[m.host] = h
		}
	}
	for host, h := range holders {
		for _, fd := range h.descriptors {
			if !driven[h.terminal] || openTerminalOf(host, fd) != h.terminal {
				return nil, len(driven) > 0, nil
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), len(driven) > 0, nil
}

// preserveTerminalData has criu leave unread input and output of terminals in place, where a program drives any
// terminal (libsingshim/shim/criu_terminals.c).
func (c *command) preserveTerminalData(drives bool) error {
	if !drives {
		return nil
	}
	var err error
	c.preload, err = findLibrary()
	return err
}

// openTerminalOf returns the number of the pseudo terminal that a descriptor of a process refers to, -1 if the
// descriptor is no terminal or the terminal is gone.
func openTerminalOf(host, fd int) int {
	process, err := unix.PidfdOpen(host, 0)
	if err != nil {
		return -1
	}
	defer unix.Close(process)
	own, err := unix.PidfdGetfd(process, fd, 0)
	if err != nil {
		return -1
	}
	defer unix.Close(own)
	device, err := unix.IoctlGetUint32(own, unix.TIOCGDEV)
	if err != nil {
		return -1
	}
	return terminalNumber(device)
}

// collectTerminals adds the descriptors of a process that are ttyPath to h, and the terminals that the process drives
// to driven. It returns criu's names of the descriptors.
func (h *holder) collectTerminals(host int, driven map[int]bool) (names []string, err error) {
	for d, err := range procfs.Descriptors(host) {
		if err != nil {
			return nil, err
		}
		to, err := d.Link()
		if err != nil || to != ttyPath && filepath.Base(to) != "ptmx" {
			continue // closed, if the process runs, or another file
		}
		f, err := mounts.Stat(d.Path())
		if err != nil || f.Kind() != unix.S_IFCHR {
			continue
		}
		switch f.Rdev {
		case unix.Mkdev(5, 0): // TTYAUX_MAJOR of the kernel's Documentation/admin-guide/devices.txt
			h.descriptors = append(h.descriptors, d.Number)
			names = append(names, fmt.Sprintf("tty[%x:%x]", f.Rdev, f.Device))
		case unix.Mkdev(5, 2):
			if n, ok := drivenBy(d.InfoPath()); ok {
				driven[n] = true
			}
		}
	}
	return names, nil
}

// drivenBy returns the number of the terminal that an open ptmx drives.
func drivenBy(fdinfo string) (int, bool) {
	b, err := os.ReadFile(fdinfo)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "tty-index:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			return n, err == nil
		}
	}
	return 0, false
}

// readTerminal returns the number of the pseudo terminal that the session of a process has, -1 if the session has no
// terminal.
func readTerminal(host int) int {
	s, err := procfs.ReadStat(host)
	if err != nil {
		return -1
	}
	return terminalNumber(s.Terminal)
}

// terminalNumber returns the number of the pseudo terminal with a device number, -1 if the number is another device's.
func terminalNumber(device uint32) int {
	if unix.Major(uint64(device)) != ptsMajor {
		return -1
	}
	return int(unix.Minor(uint64(device)))
}

// isDetached tells whether a process has no terminal though the first process of its session has one.
func isDetached(host int) bool {
	return readTerminal(host) < 0 && readTerminal(readSession(host)) >= 0
}

// isOwnTerminal tells whether an entry is an open ttyPath that ownTerminals named: CRIU notes the path of any other
// terminal.
func isOwnTerminal(m *fdinfo.FileEntry) bool { return m.GetTty() != nil && m.GetTty().RegfId == nil }

// addMissingPath returns the entry of an open ttyPath, and the missing entry of its path, which gets the given number.
func addMissingPath(m *fdinfo.FileEntry, id uint32) ([]*fdinfo.FileEntry, error) {
	t := m.GetTty()
	if t.GetFown() == nil {
		return nil, fmt.Errorf("%w: terminal %d", errImage, t.GetId())
	}
	t.RegfId = proto.Uint32(id)
	path := &regfile.RegFileEntry{
		Id: proto.Uint32(id), Flags: proto.Uint32(t.GetFlags()), Pos: proto.Uint64(0), Fown: t.GetFown(), Name: proto.String(ttyPath),
	}
	return []*fdinfo.FileEntry{m, {Type: fdinfo.FdTypes_REG.Enum(), Id: proto.Uint32(id), Reg: path}}, nil
}
