// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// files is a Source: one content for state.json, and one for any other file.
type files struct{ state, other []byte }

func (f files) Open(name string) (io.ReadCloser, error) {
	if name == stateName {
		return io.NopCloser(bytes.NewReader(f.state)), nil
	}
	return io.NopCloser(bytes.NewReader(f.other)), nil
}

// makeCommunicators makes communicators of a single rank: whole, split, with a reduction and a buffer, destroyed,
// failed, and a communicator that waits for another rank.
func makeCommunicators(c *client) {
	a := c.alloc(64)
	for i := range uint64(5) {
		ranks := 1
		if i == 4 {
			ranks = 2
		}
		c.init(commA+i, ranks, 0, [128]byte(c.must("ncclGetUniqueId")))
		if i < 4 {
			c.waitForState(commA + i)
		}
	}
	c.must("comm_split", uint64(commA), int32(0), int32(0), uint64(commA+9), uint64(0), uint64(0), uint32(0))
	c.waitForState(commA + 9)
	c.must("redop_create", []byte{3, 0, 0, 0}, uint32(4), uint64(0), int32(ncclInt32), int32(1), uint64(commA))
	c.must("ncclCommRegister", uint64(commA), a, uint64(64))
	c.must("ncclCommDestroy", uint64(commA+1))
	c.init(commA+20, 1, 0, [128]byte{})
	c.waitForState(commA + 20)
}

// describeSave returns the files of a save of a process that has some of everything.
func describeSave(t testing.TB) files {
	t.Helper()
	s := serverOf(t, "test", nil, testMemory)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	c.must("cuStreamCreate", uint64(streamA), uint32(0))
	c.must("cuEventCreate", uint64(eventA), uint32(0))
	c.post("cuEventRecord", uint64(eventA), uint64(streamA))
	m := c.loadModule(kernels)
	c.callForNumber("cuModuleGetFunction", m, "add")
	makeCommunicators(c)
	c.post("cuMemsetD8Async", c.alloc(100), uint8(1), uint64(100), uint64(0))
	folder := Folder(t.TempDir())
	var seed files
	for _, name := range saveJob(t, s, folder, SaveOptions{}).Files {
		b, err := os.ReadFile(string(folder) + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case name == stateName:
			seed.state = b
		case strings.HasPrefix(name, "calls"):
			seed.other = b
		}
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	return seed
}

// tryRestore restores files, and ends the server. The result tells whether the files were taken.
func tryRestore(t *testing.T, from files) bool {
	t.Helper()
	b, err := softgpu.New(softgpu.Config{Seed: "test", Workers: 1, Memory: []uint64{testMemory}})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Backend: b, Log: slog.New(slog.DiscardHandler)})
	if err = s.Restore(t.Context(), from); err == nil {
		err = s.Resume()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return err == nil
}

// visitLeaves calls f for each value of a JSON text that contains no other values, with a function that puts another
// value in its place.
func visitLeaves(v any, put func(any), f func(was any, put func(any))) {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			visitLeaves(v[key], func(to any) { v[key] = to }, f)
		}
	case []any:
		for i := range v {
			visitLeaves(v[i], func(to any) { v[i] = to }, f)
		}
		f(v, put)
	default:
		f(v, put)
	}
}

// TestHostileCommunicators: descriptions of communicators with a single value that is another. Their own is taken.
func TestHostileCommunicators(t *testing.T) {
	seed := describeSave(t)
	var all map[string]any
	decode := json.NewDecoder(bytes.NewReader(seed.state))
	decode.UseNumber()
	if err := decode.Decode(&all); err != nil {
		t.Fatal(err)
	}
	calls, blocks := seed.other, []any{}
	all["blocks"] = blocks // they are in another file
	process := all["processes"].([]any)[0].(map[string]any)
	for _, d := range process["devices"].([]any) {
		d.(map[string]any)["memory"] = blocks
	}
	try := func() bool {
		b, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return tryRestore(t, files{b, calls})
	}
	if !try() {
		t.Fatal("an unchanged save is not restored")
	}
	refused := 0
	f := func(was any, put func(any)) {
		for _, odd := range []any{nil, 0, 1, -1, 1 << 40, "", "x", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", []any{}, []any{0, 0}, []any{-1}} {
			put(odd)
			if !try() {
				refused++
			}
		}
		put(was)
	}
	for of, key := range map[*map[string]any]string{&all: "network", &process: "members"} {
		visitLeaves((*of)[key], func(to any) { (*of)[key] = to }, f)
	}
	if !try() || refused == 0 {
		t.Errorf("an unchanged save is not restored, or every changed one is: %d were refused", refused)
	}
}

// FuzzRestore: any files are refused or restored, and the server can be closed.
func FuzzRestore(f *testing.F) {
	seed := describeSave(f)
	f.Add(seed.state, seed.other)
	f.Add(seed.state[:len(seed.state)/2], seed.other)
	f.Add(seed.state, seed.other[:len(seed.other)/2])
	for _, swap := range [][2]string{
		{`"ordinal":0`, `"ordinal":7`}, {`"ordinal":0`, `"ordinal":-1`}, {`"block":0`, `"block":99`}, {`"Base":`, `"Base":1`}, {`"in":`, `"in":-`},
		{`"handle":`, `"handle":9`}, {`"context":`, `"context":5`}, {`"id":1,`, `"id":2,`}, {`"Size":`, `"Size":99999`}, {`"key":"`, `"key":"AA`},
		{`"size":1`, `"size":99999`}, {`"ranks":[0]`, `"ranks":[1,0]`}, {`"comm":"`, `"comm":"x`}, {`"name":"`, `"name":"x`}, {`"waits":{"id":"`, `"waits":{"id":"AAAA`},
		{`"rank":0`, `"rank":-1`}, {`"servers":[0,`, `"servers":[7,`}, {`"op":5`, `"op":3`}, {`"maker":"`, `"maker":"AAAA`}, {`"ranks":[0]`, `"ranks":[0],"servers":[0]`},
		{`"splits":1`, `"splits":-1`},
	} {
		f.Add([]byte(strings.ReplaceAll(string(seed.state), swap[0], swap[1])), seed.other)
	}
	f.Fuzz(func(t *testing.T, state, other []byte) { tryRestore(t, files{state, other}) })
}
