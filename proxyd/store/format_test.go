// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestIDs(t *testing.T) {
	for _, s := range []string{"mini/812/3", "mini/812_4/3", "mini/812+1/3", "a.b-c_d/4294967295_0+0/0"} {
		id, err := ParseID(s)
		if err != nil || id.String() != s {
			t.Errorf("ParseID of %s = %v, %v", s, id, err)
		}
		if got, ok := parseDeleted(deletedName(id, uniqueName())); !ok || got != id {
			t.Errorf("%s: as a deleted name: %v", s, got)
		}
	}
	for _, s := range []string{
		"", "mini", "mini/812", "mini/0812/3", "mini/812/03", "../812/3", "mini/812_/3", "mini/812+1_2/3", "mini/4294967296/1",
		"mini/812/3/", "/mini/812/3", "mi ni/1/1", "mini/-1/1", "mini/1/1\n", ".x/1/1", strings.Repeat("m", 65) + "/1/1",
	} {
		if id, err := ParseID(s); err == nil {
			t.Errorf("%q was taken for %v", s, id)
		}
	}
	for _, name := range []string{"", "..", "a/../b", "/a", "a//b", "a\x00", strings.Repeat("x", 300), strings.Repeat("x/", 600)} {
		if err := (StreamID{"n1", 0, name}).checkName(); err == nil {
			t.Errorf("stream name %.20q was accepted", name)
		}
	}
}

// TestSizesInErrors: sizes as an administrator reads them.
func TestSizesInErrors(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 bytes", 1023: "1023 bytes", 1536: "1.5 KiB", 41 << 30: "41 GiB", 1<<40 + 1<<39: "1.5 TiB"} {
		if got := formatSize(n); got != want {
			t.Errorf("formatSize(%d) = %s, want %s", n, got, want)
		}
	}
}

func FuzzRecipe(f *testing.F) {
	f.Add(appendZeros(appendInline(appendChunk(nil, Hash{7}, []run{{0, 4096}, {8192, 100}}), []byte("ab"), []run{{1, 2}}), 1<<40))
	f.Add([]byte{segmentChunk})
	f.Add(bytes.Repeat([]byte{segmentInline, 1, 0, 1, 'x'}, 50))
	f.Fuzz(func(t *testing.T, recipe []byte) {
		var again []byte
		err := eachSegment(recipe, func(g segment) error {
			if g.data > MaxChunk || len(g.runs) > maxRuns || uint64(g.data) > g.length {
				t.Fatalf("a parsed segment is out of bounds: %+v", g)
			}
			switch g.kind {
			case segmentChunk:
				again = appendChunk(again, g.hash, g.runs)
			case segmentInline:
				again = appendInline(again, g.bytes, g.runs)
			case segmentZeros:
				again = appendZeros(again, g.zeros)
			}
			return nil
		})
		if err == nil && len(again) > len(recipe) {
			t.Fatalf("%d bytes became %d", len(recipe), len(again))
		}
	})
}

func FuzzManifest(f *testing.F) {
	key, err := NewKey(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		f.Fatal(err)
	}
	m := &Manifest{ID: ID{JobID{"mini", 812, None, None}, 3}, Created: time.Unix(1e9, 0).UTC(), Meta: []byte("m"), Streams: []StreamInfo{
		{StreamID: StreamID{"n1", None, "a/b"}, Size: 9, Data: 9, Recipe: []byte{1}},
		{StreamID: StreamID{"n1", 0, "a"}, Size: 9, Data: 9, Pieces: []Piece{{Hash{1}, 7}}},
	}}
	file, err := sealManifest(m, key)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := openManifest(file, m.ID, key); err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add([]byte(manifestMagic + "{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := openManifest(b, m.ID, key); err == nil && !bytes.Equal(b, file) {
			t.Fatalf("a forgery was accepted: %+v", got)
		}
		// Behind a valid seal, too, no bytes may break the parser.
		got, err := parseManifest(bytes.TrimPrefix(b, []byte(manifestMagic)))
		if err != nil {
			return
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		}
		for _, s := range got.Streams {
			if err := s.checkInfo(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("00000000000000000007-upload-ABC")
	f.Add("mini,812_3,7,XYZ")
	f.Add("00000000000000000007-XYZ")
	f.Add(Hash{5}.String())
	f.Fuzz(func(t *testing.T, s string) {
		if l, ok := parseClaim(s); ok && l.String() != s {
			t.Errorf("parseClaim of %q = %v", s, l)
		}
		if h, ok := parseHash(s); ok && h.String() != s {
			t.Errorf("parseHash of %q = %v", s, h)
		}
		if id, ok := parseDeleted(s); ok && !strings.HasPrefix(s, strings.TrimSuffix(deletedName(id, ""), ",")) {
			t.Errorf("parseDeleted of %q = %v", s, id)
		}
		if id, err := ParseID(s); err == nil && id.String() != s {
			t.Errorf("ParseID of %q = %v", s, id)
		}
	})
}

// TestSplitLimits: for any pages, chunks keep to their level's bounds.
func TestSplitLimits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, l := range levels {
		n, chunks, total := 0, 0, 0
		page := make([]byte, pageSize)
		for range 20_000 {
			for i := 0; i < 16; i++ {
				page[r.IntN(pageSize)] = byte(r.Uint32())
			}
			n += pageSize
			if l.endsChunk(n, page) {
				if n < l.min || n > l.max {
					t.Fatalf("chunk of %d, bounds %d and %d", n, l.min, l.max)
				}
				chunks, total, n = chunks+1, total+n, 0
			}
		}
		t.Logf("min %d KiB, average %d KiB, max %d KiB", l.min>>10, total/max(chunks, 1)>>10, l.max>>10)
	}
}
