// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestDurations(t *testing.T) {
	for s, want := range map[string]time.Duration{"0": 0, "30s": 30 * time.Second, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "1d1h": 25 * time.Hour, "0d": 0} {
		if got, err := ParseDuration(s); got != want || err != nil {
			t.Errorf("ParseDuration(%q) = %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "d", "7", "-1s", "1d-1h", "1h1d", "1d1d", "99999d", "soon"} {
		if d, err := ParseDuration(s); err == nil {
			t.Errorf("ParseDuration(%q) = %s; want an error", s, d)
		}
	}
}

func FuzzQuote(f *testing.F) {
	f.Add(`a"b\c`)
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range s {
			if r < ' ' || r == 0x7f || r == 0xfffd {
				t.Skip()
			}
		}
		var got map[string]string
		if err := yaml.Unmarshal([]byte("k: "+Quote(s)+"\n"), &got); err != nil || got["k"] != s {
			t.Errorf("Quote(%q), read back = %q, %v", s, got["k"], err)
		}
	})
}
