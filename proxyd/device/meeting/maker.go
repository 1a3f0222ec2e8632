// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package meeting

import "crypto/rand"

// Identity is the identity of a maker of unique ids: ranks meet at the server that has the Identity, also if the unique
// id has another address. An Identity is secret.
type Identity struct {
	Maker [16]byte
	Key   [32]byte
}

// maker makes identities and keeps the gatherings of the ranks that have come.
type maker struct {
	token      [16]byte
	key        key
	number     int
	gatherings gatherings
}

func (m *maker) drawKeys() {
	rand.Read(m.token[:]) //nolint:errcheck // crypto/rand's Read never fails
	rand.Read(m.key[:])   //nolint:errcheck // crypto/rand's Read never fails
}

// Assume implements Rendezvous, as do the methods below.
func (m *maker) Assume(number int, id *Identity) {
	m.number = number
	if id != nil {
		m.token, m.key = id.Maker, id.Key
	}
}

func (m *maker) Identity() Identity { return Identity{m.token, m.key} }

func (m *maker) Hold() { m.gatherings.setKeptOpen(true) }

func (m *maker) Release() { m.gatherings.setKeptOpen(false) }

func (m *maker) Waits(id ID) bool {
	if id.makerToken() != m.token {
		return true
	}
	m.gatherings.mu.Lock()
	defer m.gatherings.mu.Unlock()
	return m.gatherings.open[string(id.nonceBytes())] != nil
}
