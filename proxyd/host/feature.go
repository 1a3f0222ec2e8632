// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package host tells which features this node has. A feature is probed once and kept as a value
// with its reason; no other package compares version numbers. Doctor prints all features, each with
// the remedy if it is missing.
//
// Every probe answers in one of three ways:
//
//	nil                            the feature is there
//	errors.Is(err, ErrUnsupported) the feature is missing; kept, until Recheck asks again
//	any other error                the probe could not tell; not kept, asked again
package host

import (
	"errors"
	"fmt"
	"sync"
)

// ErrUnsupported matches every *UnsupportedError in errors.Is.
var ErrUnsupported = errors.New("unsupported")

// UnsupportedError names a feature that this node lacks, and the version or setting that brings it.
type UnsupportedError struct {
	Feature string // "criu: dump of io_uring"
	Needs   string // "criu 4.2"
	Found   string // "criu 3.17.1"
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s needs %s, found %s", e.Feature, e.Needs, e.Found)
}

// Is makes errors.Is(err, ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// Feature is a capability of this node. A Feature is safe for concurrent use.
type Feature struct {
	Name  string
	Probe func() error

	mu     sync.Mutex
	known  bool
	answer error
}

// Recheck is Check, and runs the probe again if the feature was missing: an administrator may
// have added the feature since.
func (f *Feature) Recheck() error {
	f.mu.Lock()
	if f.answer != nil {
		f.known = false
	}
	f.mu.Unlock()
	return f.Check()
}

// Check runs the probe, or returns its earlier conclusive answer.
func (f *Feature) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known {
		return f.answer
	}
	err := f.Probe()
	if err != nil && !errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("probe %s: %w", f.Name, err)
	}
	f.known, f.answer = true, err
	return err
}
