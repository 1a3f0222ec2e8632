// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// newSharingSpaces makes two rigs with spaces that may share memory, the second on a device. The case is skipped if the
// backend shares no memory.
func (r *rig) newSharingSpaces(d backend.Device) (first, second *rig) {
	r.Helper()
	if _, ok := r.cu.(backend.Sharer); !ok {
		r.Skip("the backend shares no memory between spaces")
	}
	r.mustSucceed(r.space.Close())
	first = newRig(r.T, r.b, r.dev, backend.SpaceConfig{Memory: smallMemory, Group: 7})
	r.mustSucceed(first.space.Unmap())
	second = newRig(r.T, r.b, d, backend.SpaceConfig{Memory: smallMemory, Group: 7})
	r.mustSucceed(second.space.Unmap())
	return first, second
}

// runInTurn maps the rig's space while f runs.
func (r *rig) runInTurn(f func()) {
	r.Helper()
	r.mustSucceed(r.space.Map())
	f()
	r.mustSucceed(r.space.Drain(r.ctx))
	r.mustSucceed(r.space.Unmap())
}

func (r *rig) memorySharer() backend.Sharer { return r.cu.(backend.Sharer) }

func (r *rig) wantIn(what string, at backend.Addr, want []byte) {
	r.Helper()
	r.runInTurn(func() { r.wantBytes(what, at, want) })
}

// testShared: each of two spaces sees the other's writes, also after its memory was swapped out.
func testShared(r *rig) {
	for _, size := range []uint64{1000, 3*granule - 5} {
		a, b := r.newSharingSpaces(r.dev)
		other := must(a.cu.Alloc(512))(a) // beside small memory
		at := must(a.cu.Alloc(size))(a)
		a.runInTurn(func() { a.copyIn(at, makePattern(512, 1)) })
		name := must(a.memorySharer().Export(at))(a)
		checkEqual(r, "exported again, by an address inside", must(a.memorySharer().Export(at+8))(a), name)
		if x, found := a.space.(backend.ShareHolder).Exported(name); !found || x.Base != at || x.Size != size {
			r.Errorf("exported %+v, %v", x, found)
		}
		left, _ := b.space.Info()
		got := must(b.memorySharer().Import(a.space, name))(b)
		if now, _ := b.space.Info(); now != left {
			r.Errorf("an import takes %d bytes of the space's memory", left-now)
		}
		x, ok := b.space.Lookup(got + backend.Addr(size) - 1)
		if !ok || x.Base != got || x.Size != size || x.Kind != backend.Imported || x.Context != b.cu.ID() {
			r.Errorf("Lookup of the import's last byte = %+v, %v, want the whole import, as Imported", x, ok)
		}
		b.wantIn("written by the exporter", got, makePattern(512, 1))
		b.runInTurn(func() { b.copyIn(got, makePattern(512, 2)) })
		a.wantIn("written by the importer", at, makePattern(512, 2))
		a.wantIn("beside", other, make([]byte, 512))
		// A copy beyond the allocation does not reach other memory of the exporter.
		r.wantError("beyond", b.stream.Fill(backend.Fill{Addr: got, Element: 1, Width: size + 512}), backend.InvalidValue)
		fill := must(b.cu.Alloc(smallMemory - granule))(b) // all else leaves the device
		b.runInTurn(func() { b.copyIn(fill, makePattern(512, 3)) })
		a.wantIn("after a swap", at, makePattern(512, 2))
		b.runInTurn(func() { b.copyIn(got, makePattern(512, 4)) })
		a.wantIn("written after a swap", at, makePattern(512, 4))
		r.mustSucceed(a.space.Close())
		b.wantIn("the exporter is closed", got, makePattern(512, 4))
		r.mustSucceed(b.memorySharer().CloseImport(got))
		r.wantError("closed twice", b.memorySharer().CloseImport(got), backend.InvalidValue)
		b.runInTurn(func() {
			r.wantError("copy from a closed import", b.stream.Fill(backend.Fill{Addr: got, Element: 1, Width: 1}), backend.InvalidValue)
		})
		r.mustSucceed(b.space.Close())
		*r = *newRig(r.T, r.b, r.dev, backend.SpaceConfig{Memory: smallMemory})
	}
}

// testSharedMisused: imports of freed memory, of another's memory, and of memory that was never exported.
func testSharedMisused(r *rig) {
	a, b := r.newSharingSpaces(r.dev)
	at := must(a.cu.Alloc(2 * granule))(a)
	name := must(a.memorySharer().Export(at))(a)
	_, err := a.memorySharer().Import(a.space, name)
	r.wantError("import of the space's own", err, backend.InvalidValue)
	_, err = b.memorySharer().Import(a.space, backend.Share{Memory: name.Memory, Number: name.Number + 1})
	r.wantError("a name of nothing", err, backend.InvalidHandle)
	_, err = b.memorySharer().Import(a.space, backend.Share{})
	r.wantError("no name", err, backend.InvalidHandle)
	_, err = a.memorySharer().Export(at + 4*granule)
	r.wantError("export of nothing", err, backend.InvalidValue)

	got := must(b.memorySharer().Import(a.space, name))(b)
	_, err = b.memorySharer().Export(got)
	r.wantError("export of an import", err, backend.InvalidValue)
	r.wantError("free of an import", b.cu.Free(got), backend.InvalidValue)
	r.wantError("close what is no import", a.memorySharer().CloseImport(at), backend.InvalidValue)
	a.runInTurn(func() { a.copyIn(at, makePattern(512, 1)) })
	r.mustSucceed(a.cu.Free(at))
	_, err = b.memorySharer().Import(a.space, name)
	r.wantError("import of what was freed", err, backend.InvalidHandle)
	b.wantIn("freed by the exporter", got, makePattern(512, 1))
	// The next owner of the addresses has other memory.
	again := must(a.cu.Alloc(2 * granule))(a)
	checkEqual(r, "allocated again", again, at)
	_, err = b.memorySharer().Import(a.space, name)
	r.wantError("import of what is there now", err, backend.InvalidHandle)
	a.wantIn("allocated again", again, make([]byte, 512))

	foreign := newRig(r.T, r.b, r.dev, backend.SpaceConfig{Memory: smallMemory, Group: 8})
	r.mustSucceed(foreign.space.Unmap())
	_, err = foreign.memorySharer().Import(a.space, must(a.memorySharer().Export(again))(a))
	r.wantError("import by another group", err, backend.InvalidValue)

	// The import goes with its context.
	r.mustSucceed(b.cu.Destroy())
	if x, ok := b.space.Lookup(got); ok {
		r.Errorf("%+v is left of a context that was destroyed", x)
	}
}

// testSharedRestored: the memory is the same for all spaces again, in whichever order the spaces are made, on other devices, and
// also where the exporter has freed the memory.
func testSharedRestored(r *rig) {
	for _, freed := range []bool{false, true} {
		for _, importerFirst := range []bool{false, true} {
			a, b := r.newSharingSpaces(r.dev)
			at := must(a.cu.Alloc(2 * granule))(a)
			name := must(a.memorySharer().Export(at))(a)
			got := must(b.memorySharer().Import(a.space, name))(b)
			a.runInTurn(func() { a.copyIn(at+granule, makePattern(512, 5)) })
			if freed {
				r.mustSucceed(a.cu.Free(at))
				r.mustSucceed(a.space.Drain(r.ctx))
			}
			rigs := []*rig{a, b}
			saved := []*savedSpace{saveSpace(a), saveSpace(b)}
			if n := len(saved[0].blocks) + len(saved[1].blocks); n != 1 {
				r.Errorf("the two spaces saved %d blocks, want 1, the one that was written", n)
			}
			for _, x := range rigs {
				r.mustSucceed(x.space.Close())
			}
			order := []int{0, 1}
			if importerFirst {
				order = []int{1, 0}
			}
			for _, i := range order {
				d := r.b.Devices()[i%len(r.b.Devices())]
				rigs[i] = restoreSpace(r.T, r.b, d, saved[i])
			}
			for i, x := range rigs {
				x.cu = must(x.space.NewContext(backend.ContextID(1)))(x)
				x.stream = must(x.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(x)
				for id, bytes := range saved[i].blocks {
					r.mustSucceed(x.space.WriteBlock(id, bytes))
				}
			}
			a, b = rigs[0], rigs[1]
			b.wantIn("restored", got+granule, makePattern(512, 5))
			b.runInTurn(func() { b.copyIn(got, makePattern(512, 6)) })
			_, found := a.space.(backend.ShareHolder).Exported(name)
			if found == freed {
				r.Errorf("exported: %v", found)
			}
			if !freed {
				a.wantIn("written by the importer", at, makePattern(512, 6))
				checkEqual(r, "exported again", must(a.memorySharer().Export(at))(a), name)
				if second := must(a.memorySharer().Export(must(a.cu.Alloc(granule))(a)))(a); second == name {
					r.Error("two allocations have the same name")
				}
			}
			r.mustSucceed(a.space.Close())
			b.wantIn("the exporter is closed", got, makePattern(512, 6))
			r.mustSucceed(b.memorySharer().CloseImport(got))
			r.mustSucceed(b.space.Close())
			*r = *newRig(r.T, r.b, r.dev, backend.SpaceConfig{Memory: smallMemory})
		}
	}
}

// savedSpace is a space's state as JSON, and its bytes.
type savedSpace struct {
	text   []byte
	blocks map[backend.BlockID][]byte
}

func saveSpace(r *rig) *savedSpace {
	r.Helper()
	out := &savedSpace{text: must(json.Marshal(r.space.State()))(r), blocks: map[backend.BlockID][]byte{}}
	for _, id := range blockIDs(r.space.State()) {
		p := make([]byte, granule)
		if must(r.space.ReadBlock(id, p))(r) {
			out.blocks[id] = p
		}
	}
	return out
}

func blockIDs(st *backend.State) (out []backend.BlockID) {
	for _, g := range st.Regions() {
		for at := uint64(0); at < g.Size; at += granule {
			out = append(out, backend.BlockID{Base: g.Base + backend.Addr(at)})
		}
	}
	return out
}

// restoreSpace makes a space like a saved space, without its contexts.
func restoreSpace(t *testing.T, b backend.Backend, d backend.Device, s *savedSpace) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r := &rig{T: t, b: b, dev: d, ctx: ctx}
	st := &backend.State{}
	r.mustSucceed(json.Unmarshal(s.text, st))
	r.space = must(d.NewSpace(backend.SpaceConfig{Memory: smallMemory, Group: 7, State: st}))(r)
	return r
}

// testSharedEvents: events of two spaces that share their recordings.
func testSharedEvents(r *rig) {
	a, b := r.newSharingSpaces(r.dev)
	e := must(a.cu.NewEvent(backend.EventConfig{NoTiming: true}))(a)
	f := must(b.memorySharer().OpenEvent(e))(b)
	r.mustSucceed(f.Query())
	r.wantError("record another context's event", b.stream.Record(e), backend.InvalidHandle)
	r.mustSucceed(a.stream.Record(e)) // the space is not mapped: the event is not reached
	r.wantError("recorded by the exporter", f.Query(), backend.NotReady)
	r.mustSucceed(b.stream.Wait(f))
	g := must(b.cu.NewEvent(backend.EventConfig{NoTiming: true}))(b)
	r.mustSucceed(b.stream.Record(g))
	r.mustSucceed(b.space.Map())
	short, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	if err := g.Synchronize(short); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("work goes on before the event: %v", err)
	}
	r.mustSucceed(b.space.Unmap())
	a.runInTurn(func() { r.mustSucceed(e.Synchronize(r.ctx)) })
	b.runInTurn(func() { r.mustSucceed(g.Synchronize(r.ctx)) })
	r.mustSucceed(f.Query())

	r.mustSucceed(b.stream.Record(f))
	r.wantError("recorded by the importer", e.Query(), backend.NotReady)
	b.runInTurn(func() { r.mustSucceed(f.Synchronize(r.ctx)) })
	r.mustSucceed(e.Query())
	r.mustSucceed(e.Destroy())
	r.mustSucceed(f.Query())
	r.mustSucceed(a.space.Close())
	r.mustSucceed(f.Query())
	r.mustSucceed(f.Destroy())
	r.wantError("destroyed", f.Query(), backend.InvalidHandle)
}
