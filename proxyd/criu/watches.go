// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// CRIU finds a watched file (inotify, fanotify) by the file's handle. On a file system that opens no handles CRIU
// searches some folders, /etc among them, for a file with the same device and inode number. On an overlay of several
// file systems that is wrong: the kernel tells the overlay's device and the number that the file has in its layer, and
// a folder of the overlay may have that number too. The restored program would watch that folder in place of its file.
// CRIU does not check the file that it finds, so a dump with such a watch fails here.

// guessedWatch is a watch of which criu could not open the handle.
type guessedWatch struct {
	device uint32 // as the kernel has it: 12 bits of major and 20 of minor number
	pid    int    // of the process
}

// (00.064551) Warn  (criu/fsnotify.c:281): fsnotify: 	Handle 0x4e:0x13 cannot be opened
var closedHandle = regexp.MustCompile(`fsnotify: \s*Handle 0x([0-9a-f]{1,8}):0x[0-9a-f]+ cannot be opened$`)

// recordWatch notes a line of the log that tells of such a watch. The caller holds mu.
func (l *logbook) recordWatch(line string) {
	m := closedHandle.FindStringSubmatch(line)
	if m == nil || len(l.watches) >= maxWatches {
		return
	}
	device, err := strconv.ParseUint(m[1], 16, 32)
	if err == nil {
		l.watches = append(l.watches, guessedWatch{uint32(device), l.task})
	}
}

func (l *logbook) guessedWatches() []guessedWatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]guessedWatch(nil), l.watches...)
}

// errGuessedWatch fails a dump that criu has completed.
var errGuessedWatch = errors.New("criu may have taken another file for a watched file")

// checkWatches returns an error if criu may have taken another file of an overlay for a watched file.
func (s *criuRun) checkWatches(p Program) error {
	watches := s.log.guessedWatches()
	if len(watches) == 0 {
		return nil
	}
	overlays, err := overlayDevices(p.Init)
	if err != nil {
		return &Error{Op: "dump", PID: p.PID, Err: err}
	}
	for _, w := range watches {
		if overlays[w.device] {
			found, _ := explainComplaints([]complaint{{"Can't dump that handle", w.pid}}, s.log.processName)
			e := &Error{Op: "dump", PID: p.PID, Log: s.log.lastLines(), Err: errGuessedWatch}
			e.setPart(&found.part)
			return e
		}
	}
	return nil
}

// overlayDevices returns the devices of the overlay file systems that a process sees.
func overlayDevices(pid int) (map[uint32]bool, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return nil, err
	}
	return parseOverlays(string(b)), nil
}

// parseOverlays parses lines as "36 35 0:78 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=…".
func parseOverlays(mountinfo string) map[uint32]bool {
	const minorBits = 20
	all := map[uint32]bool{}
	for line := range strings.Lines(mountinfo) {
		words := strings.Fields(line)
		_, kind, ok := strings.Cut(line, " - ")
		if !ok || len(words) < 3 || !strings.HasPrefix(kind, "overlay ") {
			continue
		}
		var major, minor uint32
		if _, err := fmt.Sscanf(words[2], "%d:%d", &major, &minor); err == nil {
			all[major<<minorBits|minor&(1<<minorBits-1)] = true
		}
	}
	return all
}
