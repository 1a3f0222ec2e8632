// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// When Slurm takes a job's nodes away, slurmstepd and srun report this at once, on srun's standard error, which may be
// in the middle of the user's data. For a job that goes on elsewhere such lines would be wrong. So the runner reads
// srun's standard error and keeps these lines back until proxyd has said whether the job stays.

// cancelNotice is a line that slurmstepd or srun may write about a step that Slurm ends. Every message of srun's own
// may match: how tasks ended, a node that fails, a step that srun could not make.
var cancelNotice = regexp.MustCompile(`^(\d+: )?(` +
	`(slurmstepd: |\[[-0-9T:.]+\] )error: \*\*\* (STEP|JOB) \S+ ON \S+ CANCELLED AT .* \*\*\*` +
	`|srun: .*` +
	`)$`)

// launchFailure is a message of srun that Slurm has not started all tasks of its step, or that srun has not heard of it
// in time: then srun ends those that have started. A task may write the same line.
var launchFailure = regexp.MustCompile(`^(\d+: )?srun: (` +
	`error: (Application launch failed: |Task launch for \S+ failed on node |timeout waiting for task launch, )` +
	`|(Job step|StepId=)\S* ?\S* ?aborted before step completely launched)`)

// noticeOpenings are the beginnings of cancel notices, after a task's label.
var noticeOpenings = []string{"slurmstepd: error: *** ", "srun: ", "[20"}

// noticeFilter passes on srun's standard error, and withholds the cancel notices among its lines.
type noticeFilter struct {
	in   *os.File     // reading end of srun's standard error
	out  func([]byte) // writes to the user's standard error, however slow the reader is
	stay func() bool  // does the job stay? nil: this is known only when srun has ended

	mu       sync.Mutex // also held during a write
	line     []byte     // begun, and might become a notice
	withheld []byte     // notices
	asking   bool       // a goroutine waits for stay
	over     chan struct{}
	quiet    bool // drop notices

	launchFailed bool // srun has reported a failed launch
}

func newNoticeFilter(in *os.File, out func([]byte), stay func() bool) *noticeFilter {
	return &noticeFilter{in: in, out: out, stay: stay, over: make(chan struct{})}
}

// forwardLines passes on srun's standard error, until no process has the write end open any more.
func (f *noticeFilter) forwardLines() {
	defer close(f.over)
	buf := make([]byte, 64<<10)
	for {
		n, err := f.in.Read(buf)
		f.mu.Lock()
		f.filterBytes(buf[:n])
		f.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// filterBytes passes on some bytes. Caller holds f.mu.
func (f *noticeFilter) filterBytes(b []byte) {
	f.line = append(f.line, b...)
	var pass []byte
	for {
		// A progress bar's line ends with a carriage return.
		end := bytes.IndexAny(f.line, "\n\r") + 1
		if end == 0 {
			break
		}
		if cancelNotice.Match(bytes.TrimRight(f.line[:end], "\n\r")) {
			f.holdNotice(f.line[:end])
		} else {
			pass = append(pass, f.line[:end]...)
		}
		f.line = f.line[end:]
	}
	if !mayBeNotice(f.line) {
		pass = append(pass, f.line...)
		f.line = nil
	}
	f.writeAll(pass)
}

// holdNotice keeps a notice back, and starts a goroutine that passes the notice on if the job stays. Caller holds f.mu.
func (f *noticeFilter) holdNotice(line []byte) {
	f.withheld = append(f.withheld, line...)
	f.launchFailed = f.launchFailed || launchFailure.Match(line)
	if f.stay != nil && !f.asking && !f.quiet {
		f.asking = true
		go f.askAndPassNotices()
	}
}

// askAndPassNotices writes the held notices if the job stays. The answer is valid for the notices held before the
// question.
func (f *noticeFilter) askAndPassNotices() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		n := len(f.withheld)
		f.mu.Unlock()
		stays := f.stay()
		f.mu.Lock()
		if f.quiet || !stays || len(f.withheld) < n {
			break // dropNotices or flushNotices has decided, or will
		}
		f.writeAll(f.withheld[:n])
		f.withheld = f.withheld[n:]
		if len(f.withheld) == 0 {
			break
		}
	}
	f.asking = false
}

// mayBeNotice tells whether the beginning of a line can become a notice.
func mayBeNotice(begun []byte) bool {
	digits := 0
	for digits < len(begun) && begun[digits] >= '0' && begun[digits] <= '9' {
		digits++
	}
	rest := begun
	if digits > 0 {
		label := begun[digits:]
		if !bytes.HasPrefix(label, []byte(": ")) {
			return len(label) == 0 || string(label) == ":"
		}
		rest = label[2:]
	}
	if len(rest) > 1024 {
		return false
	}
	for _, o := range noticeOpenings {
		if n := min(len(o), len(rest)); o[:n] == string(rest[:n]) {
			return len(begun) > 0
		}
	}
	return false
}

// writeAll writes b in parts that a writer has room for. Caller holds f.mu.
func (f *noticeFilter) writeAll(b []byte) {
	for part := range slices.Chunk(b, maxPart) {
		f.out(part)
	}
}

// maxPart bounds the bytes of one write: they fit into a socket.
const maxPart = 64 << 10

// dropNotices drops the notices so far and from now on: the job goes on elsewhere.
func (f *noticeFilter) dropNotices() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quiet = true
	f.withheld = nil
}

// saysLaunchFailed tells whether srun has reported that the launch of its step has failed.
func (f *noticeFilter) saysLaunchFailed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.launchFailed
}

// checkDrained returns an error unless all of srun's error output so far has been passed on.
func (f *noticeFilter) checkDrained() error {
	if !f.mu.TryLock() {
		return errors.New("its error output is not read")
	}
	defer f.mu.Unlock()
	return localsock.TryWithDescriptor(f.in, func(fd int) error {
		if n, err := unix.IoctlGetInt(fd, unix.TIOCINQ); err == nil && n > 0 {
			return errors.New("error output is on its way")
		}
		return nil
	})
}

// flushNotices passes on the rest, once srun has ended. A child of srun's that lives on keeps its
// own way to standard error.
func (f *noticeFilter) flushNotices() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cancelNotice.Match(f.line) {
		f.withheld = append(f.withheld, f.line...)
	} else {
		f.writeAll(f.line)
	}
	if !f.quiet {
		f.writeAll(f.withheld)
	}
	f.line, f.withheld = nil, nil
}
