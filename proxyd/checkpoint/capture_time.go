// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// How long it takes to capture a job that Slurm ends is limited by KillWait. The longest
// time that a job led by this node took is kept, for an administrator who asks doctor.

func (c *Conductor) capturePath() string { return filepath.Join(c.Lib, "capture") }

// noteCaptureTime notes how long a job took that was captured because Slurm ended it.
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

// LongestCapture returns the longest time that a job led by this node took from Slurm's signal
// until it was captured; 0 if there was none.
func (c *Conductor) LongestCapture() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.longestCapture
}

// loadLongestCapture reads what an earlier daemon noted.
func (c *Conductor) loadLongestCapture() {
	b, err := os.ReadFile(c.capturePath())
	if err != nil {
		return
	}
	if took, err := time.ParseDuration(strings.TrimSpace(string(b))); err == nil {
		c.longestCapture = took
	}
}
