// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"errors"
	"testing"
	"time"
)

func TestToken(t *testing.T) {
	k := NewKeys()
	start := time.Unix(1_800_000_000, 0)
	k.now = func() time.Time { return start }
	token, until := k.Sign(4_000_001_001)
	if uid, end, err := k.Check(token); uid != 4_000_001_001 || !end.Equal(until) || err != nil || until.Sub(start) != TokenLife {
		t.Errorf("Check of a new token = %d, %v, %v", uid, end, err)
	}
	if again, _ := k.Sign(4_000_001_001); again == token {
		t.Error("two tokens are the same")
	}
	if _, _, err := NewKeys().Check(token); !errors.Is(err, ErrToken) {
		t.Error(err)
	}
	for i := range token { // any letter
		b := []byte(token)
		if b[i]++; b[i] == 'z'+1 {
			b[i] = 'A'
		}
		if _, _, err := k.Check(string(b)); !errors.Is(err, ErrToken) {
			t.Errorf("Check of a token with letter %d changed: %v, want ErrToken", i, err)
		}
	}
	k.now = func() time.Time { return until }
	if _, _, err := k.Check(token); !errors.Is(err, ErrTokenEnded) {
		t.Error(err)
	}
}

// FuzzToken: only the keys make a token.
func FuzzToken(f *testing.F) {
	k := NewKeys()
	good, _ := k.Sign(7)
	for _, seed := range []string{"", tokenPrefix, "sing1_AAAA", good + "=", good + "\n", " " + good} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if _, _, err := k.Check(token); err == nil {
			t.Errorf("%q is taken", token)
		}
	})
}
