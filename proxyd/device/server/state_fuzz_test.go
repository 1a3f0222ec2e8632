// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/soft"
)

// files is a Source: what is asked for as state.json, and as any other file.
type files struct{ state, other []byte }

func (f files) Open(name string) (io.ReadCloser, error) {
	if name == stateName {
		return io.NopCloser(bytes.NewReader(f.state)), nil
	}
	return io.NopCloser(bytes.NewReader(f.other)), nil
}

// FuzzRestore: whatever the files hold, it is refused or restored, and the server can be closed.
func FuzzRestore(f *testing.F) {
	s := serverOf(f, "test", nil, memory)
	_, cs := attach(f, s, 1)
	c := cs[0]
	c.begin(ctxA, 0)
	c.must("cuStreamCreate", uint64(streamA), uint32(0))
	c.must("cuEventCreate", uint64(eventA), uint32(0))
	c.post("cuEventRecord", uint64(eventA), uint64(streamA))
	m := c.load(kernels)
	c.number("cuModuleGetFunction", m, "add")
	c.post("cuMemsetD8Async", c.alloc(100), uint8(1), uint64(100), uint64(0))
	folder := Folder(f.TempDir())
	r := save(f, s, folder, SaveOptions{})
	var seed files
	for _, name := range r.Files {
		b, err := os.ReadFile(string(folder) + "/" + name)
		if err != nil {
			f.Fatal(err)
		}
		switch {
		case name == stateName:
			seed.state = b
		case strings.HasPrefix(name, "calls"):
			seed.other = b
		}
	}
	if err := s.Resume(); err != nil {
		f.Fatal(err)
	}
	f.Add(seed.state, seed.other)
	f.Add(seed.state[:len(seed.state)/2], seed.other)
	f.Add(seed.state, seed.other[:len(seed.other)/2])
	for _, swap := range [][2]string{
		{`"ordinal":0`, `"ordinal":7`}, {`"ordinal":0`, `"ordinal":-1`}, {`"block":0`, `"block":99`}, {`"Base":`, `"Base":1`}, {`"in":`, `"in":-`},
		{`"handle":`, `"handle":9`}, {`"context":`, `"context":5`}, {`"id":1,`, `"id":2,`}, {`"Size":`, `"Size":99999`}, {`"key":"`, `"key":"AA`},
	} {
		f.Add([]byte(strings.ReplaceAll(string(seed.state), swap[0], swap[1])), seed.other)
	}
	f.Fuzz(func(t *testing.T, state, other []byte) {
		b, err := soft.New(soft.Config{Seed: "test", Workers: 1, Memory: []uint64{memory}})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Config{Backend: b, Log: slog.New(slog.DiscardHandler)})
		if err := s.Restore(t.Context(), files{state, other}); err == nil {
			if err := s.Resume(); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
