// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Progress is the state of an Ensure.
type Progress struct {
	Stage       string        // "downloading", "unpacking", "waiting for another build of forky"
	Done, Total int           // of the stage's Units; Total 0 is not known
	Unit        string        // "packages", "essential packages"; "" without Total
	Elapsed     time.Duration // since Ensure began
}

// Fraction returns the part of the stage that is done, and whether it is known.
func (p Progress) Fraction() (float64, bool) {
	if p.Total <= 0 {
		return 0, false
	}
	return min(1, float64(p.Done)/float64(p.Total)), true
}

// String is the stage with its counts: "unpacking 212/410 packages".
func (p Progress) String() string {
	if p.Total <= 0 {
		return p.Stage
	}
	return fmt.Sprintf("%s %d/%d %s", p.Stage, p.Done, p.Total, p.Unit)
}

// stages are mmdebstrap's words for its next stage, and ours.
var stages = []struct{ info, stage string }{
	{"running apt-get update", "fetching package lists"},
	{"downloading packages with apt", "downloading essential packages"},
	{"extracting archives", "unpacking essential packages"},
	{"installing essential packages", "unpacking essential packages"},
	{"installing remaining packages", "reading package lists"},
	{"running --customize-hook", "finishing"},
	{"cleaning package lists", "finishing"},
	{"compiling CRIU", "compiling CRIU"},
	{"making packages of CRIU", "finishing"},
}

var newlyInstalled = regexp.MustCompile(`^\d+ upgraded, (\d+) newly installed`)

// parser follows mmdebstrap's verbose output line by line.
type parser struct {
	cur       Progress
	essential bool
	total     int // packages of this half: the essential packages, then the rest
	fetched   int
	unpacked  int
	setUp     int
}

// parseLine takes a line and reports whether the line changed anything.
func (p *parser) parseLine(s string) (Progress, bool) {
	switch {
	case strings.HasPrefix(s, "I: "):
		return p.parseInfo(s[len("I: "):])
	case strings.HasPrefix(s, "Get:"):
		return p.countLine("downloading", &p.fetched)
	case strings.HasPrefix(s, "Unpacking "):
		return p.countLine("unpacking", &p.unpacked)
	case strings.HasPrefix(s, "Setting up "):
		return p.countLine("configuring", &p.setUp)
	}
	if m := newlyInstalled.FindStringSubmatch(s); m != nil {
		p.total, _ = strconv.Atoi(m[1])
		p.fetched, p.unpacked, p.setUp = 0, 0, 0
	}
	return p.cur, false
}

// parseInfo takes a line of mmdebstrap's own.
func (p *parser) parseInfo(s string) (Progress, bool) {
	for _, st := range stages {
		if !strings.HasPrefix(s, st.info) {
			continue
		}
		p.essential = strings.Contains(st.stage, "essential")
		if st.stage == "fetching package lists" || st.stage == "reading package lists" {
			p.total = 0
		}
		p.cur = Progress{Stage: st.stage}
		return p.cur, true
	}
	return p.cur, false
}

// countLine takes a line about a single package. Before a total is known, the lines are about
// package lists.
func (p *parser) countLine(verb string, n *int) (Progress, bool) {
	if p.total == 0 {
		return p.cur, false
	}
	*n++
	unit := "packages"
	if p.essential {
		unit = "essential packages"
	}
	p.cur = Progress{Stage: verb, Done: min(*n, p.total), Total: p.total, Unit: unit}
	return p.cur, true
}

// reporter hands Progress to the caller: news at once, and the last Progress again every period, so
// that a clock runs on the screen. A reporter is safe for concurrent use.
type reporter struct {
	tell  func(Progress)
	began time.Time
	quit  chan struct{}
	done  sync.WaitGroup

	mu  sync.Mutex // serializes tell, too
	cur Progress
}

// newReporter starts a reporter; tell may be nil. The caller calls stopReporting.
func newReporter(tell func(Progress), period time.Duration) *reporter {
	r := &reporter{tell: tell, began: time.Now(), quit: make(chan struct{}), cur: Progress{Stage: "starting"}}
	if tell != nil {
		r.done.Go(func() { r.repeatEvery(period) })
	}
	return r
}

func (r *reporter) repeatEvery(period time.Duration) {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-t.C:
			r.mu.Lock()
			r.sendState()
			r.mu.Unlock()
		}
	}
}

// setState makes p the state and calls tell if p differs from the last state.
func (r *reporter) setState(p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p == r.cur {
		return
	}
	r.cur = p
	r.sendState()
}

// sendState tells the state. Caller holds r.mu.
func (r *reporter) sendState() {
	if r.tell == nil {
		return
	}
	p := r.cur
	p.Elapsed = time.Since(r.began)
	r.tell(p)
}

// stopReporting returns when the last call of tell has returned, and must be called once.
func (r *reporter) stopReporting() {
	close(r.quit)
	r.done.Wait()
}
