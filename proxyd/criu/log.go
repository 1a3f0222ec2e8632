// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// complaint is an error line of criu's log, and the task that criu was at.
type complaint struct {
	text string // without time, place and "Error"
	pid  int    // the task that the line is about, 0 if unknown
}

// logbook takes criu's log in, as the Stdout and Stderr of a command. A logbook keeps the errors,
// the names of the tasks and the end of the text; its size is bounded by its constants.
type logbook struct {
	mu         sync.Mutex
	partial    []byte
	tail       []byte
	complaints []complaint
	names      map[int]string
	task       int // being dumped
	watches    []guessedWatch
}

const (
	maxTail       = 256 << 10
	maxLine       = 8 << 10
	maxComplaints = 32
	maxWatches    = 1024
)

// Write takes any number of lines and parts of lines. Write never fails.
func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, b...)
	if over := len(l.tail) - maxTail; over > maxTail { // seldom, because this copies
		l.tail = append(l.tail[:0], l.tail[over:]...)
	}
	for rest := b; ; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if len(l.partial) < maxLine {
			l.partial = append(l.partial, line[:min(len(line), maxLine)]...)
		}
		if !whole {
			return len(b), nil
		}
		l.parseLine(string(l.partial))
		l.partial = l.partial[:0]
		rest = after
	}
}

var (
	dumping = regexp.MustCompile(`Dumping task \(pid: (\d+) comm: (.*)\)$`)
	// (00.012345)    312: Error (criu/files-reg.c:1790): text. The PID only at a restore.
	errorLine = regexp.MustCompile(`^(?:\([\d.]+\)\s+)?(?:(\d+): )?Error \([^)]*\): (.*)$`)
)

// harmless are errors that criu reports although all went well, or that only report that there was another error.
var harmless = []string{
	"Can't setup RLIMIT_NOFILE for self",
	"Dumping FAILED.", "Restoring FAILED.",
	"One of more action scripts failed", "exited with 1",
}

func (l *logbook) parseLine(s string) {
	if m := dumping.FindStringSubmatch(s); m != nil {
		l.task, _ = strconv.Atoi(m[1])
		if l.names == nil {
			l.names = map[int]string{}
		}
		l.names[l.task] = m[2]
		return
	}
	l.recordWatch(s)
	m := errorLine.FindStringSubmatch(s)
	if m == nil || len(l.complaints) >= maxComplaints {
		return
	}
	for _, h := range harmless {
		if strings.Contains(m[2], h) {
			return
		}
	}
	pid := l.task
	if m[1] != "" {
		pid, _ = strconv.Atoi(m[1])
	}
	l.complaints = append(l.complaints, complaint{m[2], pid})
}

// lastLines is the end of the log.
func (l *logbook) lastLines() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.tail[max(0, len(l.tail)-maxTail):])
}

func (l *logbook) allComplaints() []complaint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]complaint(nil), l.complaints...)
}

func (l *logbook) processName(pid int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[pid]
}
