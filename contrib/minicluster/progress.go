// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/keeper"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/rootfs"
)

// progress shows a user the current stage: on a terminal in a single line that changes, in a log in
// separate lines: the first after two seconds, and for a stage without news, each next line after twice the time.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	began    time.Time
	last     time.Time
	latest   string
	gap      time.Duration // in a log: time between the last line and the next
	wrote    bool          // the terminal's line is not empty
	ticker   *time.Ticker
	once     sync.Once
	ended    chan struct{}
}

const everySoOften = 2 * time.Second

func newProgress(f *os.File) *progress {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	now := time.Now()
	p := &progress{w: f, terminal: err == nil, began: now, last: now, gap: everySoOften, ticker: time.NewTicker(everySoOften), ended: make(chan struct{})}
	go p.repeatLine()
	return p
}

// repeatLine shows that a stage without news still goes on.
func (p *progress) repeatLine() {
	for {
		select {
		case <-p.ended:
			return
		case <-p.ticker.C:
			p.mu.Lock()
			p.drawLine()
			p.mu.Unlock()
		}
	}
}

// showLine shows line; in a log, the line is dropped if another was written a moment ago.
func (p *progress) showLine(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dropDetails(line) != dropDetails(p.latest) {
		p.gap = everySoOften
	}
	p.latest = line
	p.drawLine()
}

// drawLine draws the latest line. The caller holds p.mu.
func (p *progress) drawLine() {
	if p.latest == "" {
		return
	}
	now := time.Now()
	line := fmt.Sprintf("%s … %.0f s", p.latest, now.Sub(p.began).Seconds())
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
		p.wrote = true
		return
	}
	if now.Sub(p.last) >= p.gap {
		fmt.Fprintln(p.w, line)
		p.last, p.gap = now, 2*p.gap
	}
}

// dropDetails returns the stage, with which a line begins.
func dropDetails(line string) string {
	name, _, _ := strings.Cut(line, ":")
	return name
}

// endLine ends the line on the terminal, and may be called twice.
func (p *progress) endLine() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latest = ""; p.wrote {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.wrote = false
	}
	p.ticker.Stop()
	p.once.Do(func() { close(p.ended) })
}

func (p *progress) showBuild(b rootfs.Progress) {
	p.showLine("building the root file system, once: " + b.String())
}

func (p *progress) showEvent(e keeper.Event) {
	p.showLine(strings.TrimSpace("raising the cluster: " + e.Host + " " + e.What))
}
