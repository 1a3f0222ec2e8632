// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/forward"
)

// TestList: a list of connections that is written and read an element at a time is a list in JSON.
func TestList(t *testing.T) {
	for n := range 4 {
		var text bytes.Buffer
		l := listWriter{w: &text}
		for i := range n {
			if err := l.addConnection(Connection{SavedConnection: forward.SavedConnection{ID: fmt.Sprint(i)}, Socket: &overlay.Connection{}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.endList(); err != nil {
			t.Fatal(err)
		}
		var whole, parts []Connection
		if err := json.Unmarshal(text.Bytes(), &whole); err != nil {
			t.Errorf("parse the list %s as a whole: %v", text.Bytes(), err)
		}
		err := readList(&text, func(c Connection) error { parts = append(parts, c); return nil })
		if err != nil || len(whole) != n || len(parts) != n || l.n != n {
			t.Errorf("%d connections: %d as a whole, %d one by one, %v", n, len(whole), len(parts), err)
		}
		for i, c := range parts {
			if c.ID != fmt.Sprint(i) || c.Socket == nil {
				t.Errorf("connection %+v: want the next ID, and a socket", c)
			}
		}
	}
	for _, text := range []string{"", "null", "{}", "[", `[{"id":"a"}`, `[{"id":"a"},]`, `[{"id":`, "[1]"} {
		if err := readList(strings.NewReader(text), func(Connection) error { return nil }); err == nil {
			t.Errorf("readList accepts %q", text)
		}
	}
}
