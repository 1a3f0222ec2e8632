// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

func TestTimelineIsBounded(t *testing.T) {
	folder := Folder{t.TempDir()}
	rec := &Record{Job: 7, Slurm: "7", Nodes: []string{"n1"}, Addresses: []netip.Addr{netip.MustParseAddr("100.64.0.1")}}
	if err := folder.Save(rec); err != nil {
		t.Fatal(err)
	}
	lines := NewTimeline(folder, "n1")
	text := strings.Repeat("x", MaxEventText)
	const all = 1500
	for n := range all {
		if err := lines.Write(7, Event{At: time.Unix(int64(n), 0), What: EventCheckpoint, Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	st, err := os.Stat(lines.Path(7, "n1"))
	if err != nil || st.Size() > maxTimeline+MaxEventText+200 {
		t.Errorf("file of %v bytes, error %v", st.Size(), err)
	}
	got, err := lines.Read(7)
	if err != nil || len(got) < 200 || got[len(got)-1].At.Unix() != all-1 {
		t.Errorf("Read of a full time line: %d events, %v", len(got), err)
	}
	for i, e := range got {
		if want := int64(all - len(got) + i); e.At.Unix() != want {
			t.Fatalf("event %d is %d, want %d", i, e.At.Unix(), want)
		}
	}
}
