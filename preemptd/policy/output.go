// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Bounds of the log of a policy's standard error.
const (
	maxLine  = 1 << 10 // of a line
	maxLines = 100     // that are logged from a question to the next
)

// output takes a policy's standard error.
type output struct {
	log *slog.Logger

	mu     sync.Mutex
	line   []byte // that is not finished
	last   string // the last finished line
	cause  string // the first line by which Go says why a process ends
	logged int
	lines  []string // that were logged since the last question began
}

// Write takes bytes, and never fails: bytes beyond the bounds are lost.
func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for rest := data; len(rest) > 0; {
		text, more, ended := bytes.Cut(rest, []byte{'\n'})
		o.line = append(o.line, text[:min(len(text), maxLine-len(o.line))]...)
		if ended {
			o.finishLine()
		}
		rest = more
	}
	return len(data), nil
}

// finishLine ends a line. Caller holds o.mu.
func (o *output) finishLine() {
	line := strings.ToValidUTF8(string(o.line), "?")
	o.line = o.line[:0]
	if line == "" {
		return
	}
	if o.cause == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
		o.cause = line
	}
	o.last = line
	switch o.logged++; {
	case o.logged <= maxLines:
		o.log.Info("policy says", "line", line)
		o.lines = append(o.lines, line)
	case o.logged == maxLines+1:
		o.log.Warn("policy says too much: the rest until the next question is dropped")
	}
}

// beginQuestion begins the next question.
func (o *output) beginQuestion() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.logged, o.lines = 0, nil
}

// linesSaid returns the lines logged since the last question began.
func (o *output) linesSaid() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lines)
}

// lastComplaint is the line that tells most of why a policy failed; empty: no output.
func (o *output) lastComplaint() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause != "" {
		return o.cause
	}
	return o.last
}
