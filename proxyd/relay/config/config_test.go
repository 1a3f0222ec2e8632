// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLoad: valid texts are accepted, and the errors name the mistakes of others.
func TestLoad(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: the file must be root's")
	}
	for text, want := range map[string]string{
		"":                                   "",
		"allow: [10.2.0.0/16, 192.0.2.7]\n":  "",
		"allow: [10.2.0.0/16, databases]\n":  "allow",
		"deny: ['fd00::/8']\n":               "deny",
		"user: root\n":                       `"root": want a user of this host other than root`,
		"listen: 6833\n":                     `"6833": want [ADDRESS]:PORT`,
		"keep: 1s\n":                         `"1s": want at least 1m`,
		"per_user: 0\n":                      "per_user",
		"clients: {ports: 7000-7999}\n":      "",
		"clients: {ports: 80-90}\n":          `"80-90": want ports from 1024 to 65535`,
		"clients: {ports: 7999-7000}\n":      "1024 to 65535",
		"clients: {ports: 7000-70000}\n":     "1024 to 65535",
		"peruser: 1\n":                       "per_user",
		"links: relay.example:6834\nuser: a": "[ADDRESS]:PORT",
	} {
		file := filepath.Join(t.TempDir(), "relay.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Load(file, nil)
		if want == "" {
			if err != nil || c.Keep == 0 || c.Listen != ":6833" {
				t.Errorf("Load of %q: error %v, configuration %+v", text, err, c)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load of %q: error %v, want %q", text, err, want)
		}
	}
}
