// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

const (
	// ticketVersion is raised when older tickets must not be accepted any more.
	ticketVersion = 1
	// repeatVersion is the version of the tickets of calls that are sent again. A server of a release that does not know
	// such calls refuses the version.
	repeatVersion = 2
)

// ticket is the payload of a credential. Any user can make a ticket of any bytes.
type ticket struct {
	Version int    `json:"version"`
	Method  string `json:"method"` // "/package.Service/Method"
	To      string `json:"to"`     // node that may accept the ticket
	From    string `json:"from"`   // node of the caller, in the caller's own words
	Nonce   []byte `json:"nonce"`
	Key     []byte `json:"key"` // for the seal of the reply
	Size    int64  `json:"size"`
	Digest  []byte `json:"digest"` // SHA-256 of the request
	// Age is of a call that is sent again: the milliseconds from its first sending, with the same nonce, until this ticket.
	Age int64 `json:"age_ms,omitempty"`
}

const (
	nonceSize = 16
	keySize   = 32
)

// newTicket makes the ticket for a request.
func newTicket(method, to, from string, request []byte) ticket {
	secret := make([]byte, nonceSize+keySize)
	rand.Read(secret) // never fails
	digest := sha256.Sum256(request)
	return ticket{
		Version: ticketVersion, Method: method, To: to, From: from,
		Nonce: secret[:nonceSize:nonceSize], Key: secret[nonceSize:],
		Size: int64(len(request)), Digest: digest[:],
	}
}

func (t ticket) marshal() []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings, numbers and bytes only
	}
	return b
}

// parseTicket checks the form only.
func parseTicket(payload []byte) (ticket, error) {
	var t ticket
	if err := json.Unmarshal(payload, &t); err != nil {
		return ticket{}, fmt.Errorf("%w: its payload is no ticket", ErrRefused)
	}
	switch {
	case t.Version != ticketVersion && t.Version != repeatVersion:
		return ticket{}, fmt.Errorf("%w: ticket of version %d, this is version %d", ErrRefused, t.Version, repeatVersion)
	case len(t.Nonce) != nonceSize, len(t.Key) != keySize, len(t.Digest) != sha256.Size, t.Size < 0,
		t.Age < 0, t.Age > Lifetime.Milliseconds():
		return ticket{}, fmt.Errorf("%w: its payload is no ticket", ErrRefused)
	}
	return t, nil
}

// admits says whether the ticket is for this node and method.
func (t ticket) admits(node, method string) error {
	switch {
	case t.To != node:
		return fmt.Errorf("%w: for node %.64q, this is %q", ErrElsewhere, t.To, node)
	case t.Method != method:
		return fmt.Errorf("%w: for %.100q", ErrElsewhere, t.Method)
	}
	return nil
}

// admitsRepeat says whether a call that is sent again, and has arrived at that time, was first sent after the server began.
// The nonces that a server has seen before that are not known.
func (t ticket) admitsRepeat(arrived, began time.Time) error {
	sent := arrived.Add(-longestTransit - time.Duration(t.Age)*time.Millisecond)
	if t.Version == repeatVersion && sent.Before(began) {
		return ErrRepeated
	}
	return nil
}

// covers says whether the ticket was made for this request.
func (t ticket) covers(request []byte) error {
	digest := sha256.Sum256(request)
	if t.Size != int64(len(request)) || !bytes.Equal(digest[:], t.Digest) {
		return ErrTampered
	}
	return nil
}

// isSealed says whether seal is that of the reply.
func isSealed(seal, want []byte) bool { return subtle.ConstantTimeCompare(seal, want) == 1 }

// nonces remembers each nonce that was seen, for at least the duration while and at most twice
// that.
type nonces struct {
	while time.Duration
	now   func() time.Time

	mu          sync.Mutex
	began       time.Time // of recent
	recent, old map[nonce]struct{}
}

// nonce is a nonce of a user: nonces that other users choose cannot collide with it.
type nonce struct {
	uid uint32
	n   [nonceSize]byte
}

func newNonces(while time.Duration, now func() time.Time) *nonces {
	return &nonces{while: while, now: now, began: now(), recent: make(map[nonce]struct{})}
}

// isFirst says whether this nonce is seen for the first time.
func (s *nonces) isFirst(uid uint32, n []byte) bool {
	key := nonce{uid: uid}
	copy(key.n[:], n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); now.Sub(s.began) >= s.while {
		if now.Sub(s.began) >= 2*s.while {
			s.recent = nil
		}
		s.began, s.old, s.recent = now, s.recent, make(map[nonce]struct{})
	}
	_, seen := s.recent[key]
	_, before := s.old[key]
	s.recent[key] = struct{}{}
	return !seen && !before
}
