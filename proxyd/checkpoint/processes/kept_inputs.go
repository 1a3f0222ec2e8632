// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"errors"
	"sync"
)

// KeptInputs are the relays of a capsule's wardens while a checkpoint is made, by program: Slurm may kill a warden
// before its input is saved. They belong to an attempt: a relay that a late call of an earlier attempt brings is in no
// checkpoint of a later attempt. The zero value has no relays. All methods may be called concurrently.
type KeptInputs struct {
	mu      sync.Mutex
	attempt uint32 // number of the checkpoint; 0: no attempt is in progress
	closed  bool
	relays  map[string]*InputRelay
}

// ErrOtherAttempt is the error of Keep after the end of the attempt.
var ErrOtherAttempt = errors.New("the checkpoint is not being made any more")

// Begin has relays of an attempt kept, and forgets those of another.
func (k *KeptInputs) Begin(attempt uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.attempt != attempt && !k.closed {
		k.closeRelays()
		k.attempt = attempt
	}
}

// Keep keeps a relay, in the place of the program's earlier relay. Keep takes the relay over, and closes it if the attempt is
// over.
func (k *KeptInputs) Keep(attempt uint32, program string, r *InputRelay) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if attempt == 0 || attempt != k.attempt {
		r.Close()
		return ErrOtherAttempt
	}
	if k.relays == nil {
		k.relays = map[string]*InputRelay{}
	}
	if before := k.relays[program]; before != nil {
		before.Close()
	}
	k.relays[program] = r
	return nil
}

// Copy returns a copy of the relay that is kept for a program in an attempt; nil if there is none. The caller closes
// the copy.
func (k *KeptInputs) Copy(attempt uint32, program string) (*InputRelay, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.relays[program]
	if r == nil || attempt != k.attempt {
		return nil, nil
	}
	return r.Copy()
}

// Forget ends the attempt, and closes all relays.
func (k *KeptInputs) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closeRelays()
}

// Close is Forget, after which no relay is kept any more.
func (k *KeptInputs) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closeRelays()
	k.closed = true
}

// closeRelays closes and forgets all relays. The caller holds mu.
func (k *KeptInputs) closeRelays() {
	for _, r := range k.relays {
		r.Close()
	}
	k.relays, k.attempt = nil, 0
}
