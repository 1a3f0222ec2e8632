// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"
)

// Hash is the BLAKE3-256 of a chunk's plain bytes, and the chunk's name.
//
// Of the two Go libraries with SIMD, zeebo/blake3 was as fast or faster at our sizes on a single core, and never starts
// goroutines: the Writer decides how many cores hash.
type Hash [32]byte

// hashOf returns the hash of plain bytes, which is the chunk's name.
func hashOf(plain []byte) Hash { return blake3.Sum256(plain) }

// String returns 64 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns the same digits as String.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText parses the digits that MarshalText returns.
func (h *Hash) UnmarshalText(text []byte) error {
	parsed, ok := parseHash(string(text))
	if !ok {
		return fmt.Errorf("hash %.80q: want 64 lower-case hexadecimal digits", text)
	}
	*h = parsed
	return nil
}

// parseHash is the inverse of String; upper case is not accepted, because a chunk has a single
// name.
func parseHash(s string) (h Hash, ok bool) {
	if len(s) != hex.EncodedLen(len(h)) {
		return h, false
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return h, false
	}
	return h, h.String() == s
}
