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

// captured notes how long a job took that was captured because Slurm ended it.
func (c *Conductor) captured(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if took <= c.longest {
		return
	}
	c.longest = took
	if err := os.WriteFile(c.capturePath(), []byte(took.Round(time.Millisecond).String()+"\n"), 0o600); err != nil {
		c.Log.Warn("longest capture", "error", err)
	}
}

// Capture returns the longest time that a job led by this node took from Slurm's signal
// until it was captured; 0 if there was none.
func (c *Conductor) Capture() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.longest
}

// recall reads what an earlier daemon noted.
func (c *Conductor) recall() {
	b, err := os.ReadFile(c.capturePath())
	if err != nil {
		return
	}
	if took, err := time.ParseDuration(strings.TrimSpace(string(b))); err == nil {
		c.longest = took
	}
}
