// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package syscalls

import "time"

// Rewound are threads that make their calls again when they run.
type Rewound struct{}

// Rewind has no effect on this architecture.
func Rewind([]int, Observed, time.Duration) (*Rewound, error) { return &Rewound{}, nil }

// Count returns the number of threads that are rewound.
func (r *Rewound) Count() int { return 0 }

// SetTimeLeft has no effect on this architecture.
func (r *Rewound) SetTimeLeft() error { return nil }
