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

// When Slurm takes a job's nodes away, slurmstepd and srun say so at once, on srun's standard
// error, which may be in the middle of the user's data. Of a job that goes on elsewhere that
// would be wrong. So the runner reads srun's standard error and keeps these lines back until
// proxyd has said whether the job stays.

// obituary is a line that Slurm may write about a step that Slurm ends. Every message of srun's
// own may match: how tasks ended, a node that fails, a step that srun could not make.
var obituary = regexp.MustCompile(`^(\d+: )?(` +
	`(slurmstepd: |\[[-0-9T:.]+\] )error: \*\*\* (STEP|JOB) \S+ ON \S+ CANCELLED AT .* \*\*\*` +
	`|srun: .*` +
	`)$`)

// launchFailure is what srun says if Slurm has not started all tasks of its step, or srun has not heard of it in time: then
// srun ends those that have started. A task may write the same.
var launchFailure = regexp.MustCompile(`^(\d+: )?srun: (` +
	`error: (Application launch failed: |Task launch for \S+ failed on node |timeout waiting for task launch, )` +
	`|(Job step|StepId=)\S* ?\S* ?aborted before step completely launched)`)

// openings are how obituaries begin, after a task's label.
var openings = []string{"slurmstepd: error: *** ", "srun: ", "[20"}

// muffler passes on what srun says.
type muffler struct {
	in   *os.File     // reading end of srun's standard error
	out  func([]byte) // writes to the user's standard error, however slow the reader is
	stay func() bool  // does the job stay? nil: that is known only in the end

	mu     sync.Mutex // also held while something is being written
	line   []byte     // begun, and might become an obituary
	held   []byte     // obituaries
	asking bool       // a goroutine waits for stay
	over   chan struct{}
	quiet  bool // obituaries are not to be told

	launchFailed bool // srun has said so
}

func newMuffler(in *os.File, out func([]byte), stay func() bool) *muffler {
	return &muffler{in: in, out: out, stay: stay, over: make(chan struct{})}
}

// forwardLines passes on what srun says, until srun and all that has its standard error are gone.
func (m *muffler) forwardLines() {
	defer close(m.over)
	buf := make([]byte, 64<<10)
	for {
		n, err := m.in.Read(buf)
		m.mu.Lock()
		m.takeBytes(buf[:n])
		m.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// takeBytes passes on some bytes. Caller holds m.mu.
func (m *muffler) takeBytes(b []byte) {
	m.line = append(m.line, b...)
	var pass []byte
	for {
		// A progress bar's line ends with a carriage return.
		end := bytes.IndexAny(m.line, "\n\r") + 1
		if end == 0 {
			break
		}
		if obituary.Match(bytes.TrimRight(m.line[:end], "\n\r")) {
			m.holdObituary(m.line[:end])
		} else {
			pass = append(pass, m.line[:end]...)
		}
		m.line = m.line[end:]
	}
	if !mayBeObituary(m.line) {
		pass = append(pass, m.line...)
		m.line = nil
	}
	m.writeAll(pass)
}

// holdObituary keeps an obituary back, and tells the user if the job stays. Caller holds m.mu.
func (m *muffler) holdObituary(line []byte) {
	m.held = append(m.held, line...)
	m.launchFailed = m.launchFailed || launchFailure.Match(line)
	if m.stay != nil && !m.asking && !m.quiet {
		m.asking = true
		go m.askAndTell()
	}
}

// askAndTell tells what is held if the job stays. The answer holds for what was said before the
// question.
func (m *muffler) askAndTell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		n := len(m.held)
		m.mu.Unlock()
		stays := m.stay()
		m.mu.Lock()
		if m.quiet || !stays || len(m.held) < n {
			break // dropObituaries or passRest has decided, or will
		}
		m.writeAll(m.held[:n])
		m.held = m.held[n:]
		if len(m.held) == 0 {
			break
		}
	}
	m.asking = false
}

// mayBeObituary says whether the beginning of a line can become an obituary.
func mayBeObituary(begun []byte) bool {
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
	for _, o := range openings {
		if n := min(len(o), len(rest)); o[:n] == string(rest[:n]) {
			return len(begun) > 0
		}
	}
	return false
}

// writeAll writes all, in parts that a writer has room for. Caller holds m.mu.
func (m *muffler) writeAll(b []byte) {
	for part := range slices.Chunk(b, maxPart) {
		m.out(part)
	}
}

// maxPart bounds what is written at a time: it fits into a socket.
const maxPart = 64 << 10

// dropObituaries drops the obituaries so far and from now on: the job goes on elsewhere.
func (m *muffler) dropObituaries() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quiet = true
	m.held = nil
}

// saysLaunchFailed says whether srun has said that the launch of its step has failed.
func (m *muffler) saysLaunchFailed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.launchFailed
}

// checkDrained says whether all that srun has said has been passed on.
func (m *muffler) checkDrained() error {
	if !m.mu.TryLock() {
		return errors.New("its error output is not read")
	}
	defer m.mu.Unlock()
	return localsock.TryWithDescriptor(m.in, func(fd int) error {
		if n, err := unix.IoctlGetInt(fd, unix.TIOCINQ); err == nil && n > 0 {
			return errors.New("error output is on its way")
		}
		return nil
	})
}

// passRest passes on the rest, once srun has ended. A child of srun's that lives on keeps its
// own way to standard error.
func (m *muffler) passRest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if obituary.Match(m.line) {
		m.held = append(m.held, m.line...)
	} else {
		m.writeAll(m.line)
	}
	if !m.quiet {
		m.writeAll(m.held)
	}
	m.line, m.held = nil, nil
}
