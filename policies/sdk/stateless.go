// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import "context"

// Stateless is a Policy that decides from the snapshot and its settings alone. S is a struct
// of settings that a site can change, with the names of JSON.
type Stateless[S any] struct {
	About    Description
	Settings S             // the defaults until Configure is called
	Check    func(S) error // refuses settings that make no sense; nil: all do make sense
	Answer   func(*Snapshot, S) []Intent
}

// Describe returns About.
func (p *Stateless[S]) Describe() Description { return p.About }

// Configure takes over the settings that data has; the rest keep their defaults.
func (p *Stateless[S]) Configure(data []byte) error {
	if err := Settings(data, &p.Settings); err != nil {
		return err
	}
	if p.Check == nil {
		return nil
	}
	return p.Check(p.Settings)
}

// Decide returns Answer's intents.
func (p *Stateless[S]) Decide(_ context.Context, s *Snapshot) ([]Intent, error) {
	return p.Answer(s, p.Settings), nil
}
