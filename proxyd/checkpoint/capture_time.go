// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// KillWait limits the time to capture a job that Slurm ends. The longest such time of this node
// is kept, for singctl doctor.

func (c *Conductor) capturePath() string { return filepath.Join(c.Lib, "capture") }

// noteCaptureTime notes the duration of a capture after a signal of Slurm.
func (c *Conductor) noteCaptureTime(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if took <= c.longestCapture {
		return
	}
	c.longestCapture = took
	if err := os.WriteFile(c.capturePath(), []byte(took.Round(time.Millisecond).String()+"\n"), 0o600); err != nil {
		c.Log.Warn("longest capture", "error", err)
	}
}

// LongestCapture returns the longest time, of the jobs that this node led, from Slurm's signal to
// the committed checkpoint; 0 if there was none.
func (c *Conductor) LongestCapture() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.longestCapture
}

// loadLongestCapture reads the value that an earlier daemon saved.
func (c *Conductor) loadLongestCapture() {
	b, err := os.ReadFile(c.capturePath())
	if err != nil {
		return
	}
	if took, err := time.ParseDuration(strings.TrimSpace(string(b))); err == nil {
		c.longestCapture = took
	}
}
