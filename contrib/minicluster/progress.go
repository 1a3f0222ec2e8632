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

// progress tells a person what goes on: on a terminal in one line that changes, in
// a log in lines of its own, not more than one in two seconds.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	began    time.Time
	last     time.Time
	wrote    bool // the terminal's line is not empty
}

const everySoOften = 2 * time.Second

func newProgress(f *os.File) *progress {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	now := time.Now()
	return &progress{w: f, terminal: err == nil, began: now, last: now}
}

// say shows line, or drops it if there was one a moment ago.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	line = fmt.Sprintf("%s … %.0f s", line, now.Sub(p.began).Seconds())
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
		p.wrote = true
		return
	}
	if now.Sub(p.last) >= everySoOften {
		fmt.Fprintln(p.w, line)
		p.last = now
	}
}

// end leaves the terminal's line. It may be called twice.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrote {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.wrote = false
	}
}

func (p *progress) building(b rootfs.Progress) { p.say("building the root file system, once: " + b.String()) }

func (p *progress) raising(e keeper.Event) {
	p.say(strings.TrimSpace("raising the cluster: " + e.Host + " " + e.What))
}
