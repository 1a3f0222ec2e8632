// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// share commits what one node has of a checkpoint into its own store.
func share(ctx context.Context, s *store.Store, id store.ID, node string, data []byte) error {
	w, err := s.Create(ctx, store.Upload{ID: id, Node: node})
	if err != nil {
		return err
	}
	st, err := w.Stream(0, "pages-1.img")
	if err == nil {
		_, err = st.Write(data)
	}
	if err == nil {
		err = st.Close()
	}
	if err == nil {
		_, err = w.Commit(ctx, []byte("meta of "+node))
	}
	return errors.Join(err, w.Abort(ctx))
}

// bring uploads the shares of two nodes as one checkpoint.
func bring(ctx context.Context, shared *store.Store, id store.ID, n1, n2 *store.Store) error {
	lead, err := shared.Create(ctx, store.Upload{ID: id, Node: "n1"})
	if err != nil {
		return err
	}
	defer func() { _ = lead.Abort(ctx) }()
	meta, err := lead.Import(ctx, n1, id, nil, nil)
	if err != nil {
		return err
	}
	member, err := shared.Join(ctx, store.Upload{ID: id, Node: "n2"}, lead.Ticket())
	if err != nil {
		return err
	}
	defer func() { _ = member.Abort(ctx) }()
	if _, err := member.Import(ctx, n2, id, nil, nil); err != nil {
		return err
	}
	part, err := member.Finish(ctx)
	if err != nil {
		return err
	}
	_, err = lead.Commit(ctx, meta, part)
	return err
}

// stages are the stores of two nodes that hold one checkpoint, with pages in common.
func stages(t *testing.T, id store.ID) (n1, n2 *store.Store, images [2][]byte) {
	im := storetest.NewImage(1, 900)
	images = [2][]byte{im.Bytes(), im.Touch(7, 40).Bytes()}
	n1, n2 = openStore(t, folder(t), store.Options{}), openStore(t, folder(t), store.Options{})
	check(t, errors.Join(share(t.Context(), n1, id, "n1", images[0]), share(t.Context(), n2, id, "n2", images[1])))
	return n1, n2, images
}

// whole checks that a checkpoint is there and is what the nodes had.
func whole(t *testing.T, s *store.Store, id store.ID, images [2][]byte) {
	t.Helper()
	r := must(s.Open(t.Context(), id))
	defer r.Close()
	if m := r.Manifest(); string(m.Meta) != "meta of n1" || strings.Join(m.Nodes(), ",") != "n1,n2" {
		t.Fatalf("meta %q, nodes %q", m.Meta, m.Nodes())
	}
	for i, node := range []string{"n1", "n2"} {
		st := must(r.Stream(store.StreamID{Node: node, Rank: 0, Name: "pages-1.img"}))
		var b bytes.Buffer
		_, err := st.WriteTo(&b)
		check(t, errors.Join(err, st.Close()))
		if !bytes.Equal(b.Bytes(), images[i]) {
			t.Fatalf("the stream of %s differs", node)
		}
	}
}

// TestImport: shares of two nodes become the checkpoint that a dump into the store would
// have made, and is counted as one.
func TestImport(t *testing.T) {
	id := ckpt(1, 1)
	n1, n2, images := stages(t, id)
	shared := openStore(t, folder(t), store.Options{})
	check(t, bring(t.Context(), shared, id, n1, n2))
	whole(t, shared, id, images)
	report := must(shared.Verify(t.Context(), nil, nil))
	if len(report.Problems) > 0 {
		t.Errorf("verify: %+v", report)
	}
	s := must(shared.List(t.Context(), nil))[0].Stats
	if s.Logical != int64(len(images[0])+len(images[1])) || s.Logical != s.Zero+s.Inline+s.Dedup+s.New || s.New == 0 || s.Stored == 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestImportCrash kills an upload at each change that it makes; the next one, of another
// process, goes on and the checkpoint is there, whole, and not before.
func TestImportCrash(t *testing.T) {
	id := ckpt(1, 1)
	n1, n2, images := stages(t, id)
	opt := store.Options{Lanes: 1, Workers: 1, Beat: time.Hour}
	prepared := func() *storetest.Mem {
		be := storetest.NewMem()
		must(store.Open(t.Context(), be, testKey, opt)).Close()
		return be
	}
	count := storetest.NewFault(prepared(), 0, storetest.Before)
	check(t, bring(t.Context(), openStore(t, count, opt), id, n1, n2))
	for at := 1; at <= count.Steps(); at++ {
		for _, cut := range []storetest.Cut{storetest.Before, storetest.After} {
			be := prepared()
			first := openStore(t, storetest.NewFault(be, at, cut), opt)
			err := bring(t.Context(), first, id, n1, n2)
			be.PowerCut()
			second := openStore(t, be, opt)
			list := must(second.List(t.Context(), nil))
			if err == nil && len(list) != 1 {
				t.Fatalf("step %d: committed, and not there", at)
			}
			if len(list) == 1 { // before or after the answer was lost
				whole(t, second, id, images)
			}
			there := len(list) == 1
			if err := bring(t.Context(), second, id, n1, n2); err != nil && (!there || !errors.Is(err, fs.ErrExist)) {
				t.Fatalf("step %d: the next upload: %v", at, err)
			}
			whole(t, second, id, images)
		}
	}
}

// TestImportCollected: chunks of an upload in progress are not collected, and those of one
// that died are brought again.
func TestImportCollected(t *testing.T) {
	id := ckpt(1, 1)
	n1, n2, images := stages(t, id)
	shared := openStore(t, folder(t), store.Options{})
	lead := must(shared.Create(t.Context(), store.Upload{ID: id, Node: "n1"}))
	meta := must(lead.Import(t.Context(), n1, id, nil, nil))
	must(shared.GC(t.Context(), store.Policy{}, nil, false))
	member := must(shared.Join(t.Context(), store.Upload{ID: id, Node: "n2"}, lead.Ticket()))
	must(member.Import(t.Context(), n2, id, nil, nil))
	part := must(member.Finish(t.Context()))
	must(shared.GC(t.Context(), store.Policy{}, nil, false))
	must(lead.Commit(t.Context(), meta, part))
	whole(t, shared, id, images)
}

// TestFence: an upload that was fenced cannot commit; what it left is collected, and
// another checkpoint's upload is left alone.
func TestFence(t *testing.T) {
	id := ckpt(1, 1)
	n1, n2, _ := stages(t, id)
	shared := openStore(t, folder(t), store.Options{})
	other := must(shared.Create(t.Context(), store.Upload{ID: ckpt(1, 2), Node: "n1"}))
	lead := must(shared.Create(t.Context(), store.Upload{ID: id, Node: "n1"}))
	meta := must(lead.Import(t.Context(), n1, id, nil, nil))
	check(t, shared.Fence(t.Context(), id))
	check(t, shared.Fence(t.Context(), id))
	if _, err := lead.Commit(t.Context(), meta); !errors.Is(err, store.ErrFenced) {
		t.Errorf("commit: %v", err)
	}
	check(t, lead.Abort(t.Context()))
	if _, err := shared.Join(t.Context(), store.Upload{ID: id, Node: "n2"}, lead.Ticket()); !errors.Is(err, store.ErrFenced) {
		t.Errorf("join: %v", err)
	}
	must(other.Commit(t.Context(), nil))
	if list := must(shared.List(t.Context(), nil)); len(list) != 1 || list[0].ID != ckpt(1, 2) {
		t.Errorf("list %+v", list)
	}
	check(t, bring(t.Context(), shared, id, n1, n2))
}

// TestImportSource: a share that is gone or damaged is told from a store that fails.
func TestImportSource(t *testing.T) {
	id := ckpt(1, 1)
	stage := storetest.NewMem()
	n1 := openStore(t, stage, store.Options{})
	shared := openStore(t, folder(t), store.Options{})
	try := func(to *store.Store) error {
		w, err := to.Create(t.Context(), store.Upload{ID: id, Node: "n1"})
		if err != nil {
			return err
		}
		if _, err = w.Import(t.Context(), n1, id, nil, nil); err == nil {
			_, err = w.Commit(t.Context(), nil)
		}
		return errors.Join(err, w.Abort(t.Context()))
	}
	if err := try(shared); !errors.Is(err, store.ErrSource) {
		t.Errorf("nothing there: %v", err)
	}
	check(t, share(t.Context(), n1, id, "n1", storetest.NewImage(1, 200).Bytes()))
	full := openStore(t, storetest.NewError(must(openMem(t)), 3, fs.ErrInvalid), store.Options{})
	if err := try(full); err == nil || errors.Is(err, store.ErrSource) {
		t.Errorf("the store fails: %v", err)
	}
	for name, b := range stage.Files("chunks/") {
		b = bytes.Clone(b)
		b[len(b)-1] ^= 1
		stage.Overwrite(name, b)
	}
	if err := try(shared); !errors.Is(err, store.ErrSource) || !errors.Is(err, store.ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
}

func openMem(t *testing.T) (*storetest.Mem, error) {
	be := storetest.NewMem()
	s, err := store.Open(t.Context(), be, testKey, store.Options{})
	if err == nil {
		s.Close()
	}
	return be, err
}

// TestImportPace: each byte that is put is paced, none that is there already.
func TestImportPace(t *testing.T) {
	id := ckpt(1, 1)
	n1, _, _ := stages(t, id)
	shared := openStore(t, folder(t), store.Options{})
	var paced atomic.Int64
	pace := func(_ context.Context, n int) error { paced.Add(int64(n)); return nil }
	for round, want := range []bool{true, false} {
		w := must(shared.Create(t.Context(), store.Upload{ID: ckpt(1, 1), Node: "n1"}))
		paced.Store(0)
		var done, total int64
		must(w.Import(t.Context(), n1, id, pace, func(d, n int64) { done, total = d, n }))
		if got := paced.Load(); (got > 0) != want || done != total || done == 0 {
			t.Errorf("round %d: %d paced, %d of %d", round, got, done, total)
		}
		must(w.Commit(t.Context(), nil))
		check(t, shared.Delete(t.Context(), id))
	}
}

// TestSize: what a store may hold is less than what the file system has.
func TestSize(t *testing.T) {
	s := openStore(t, folder(t), store.Options{Size: 8 << 20})
	check(t, share(t.Context(), s, ckpt(1, 1), "n1", storetest.Noise(1, 1000).Bytes())) // about 4 MB
	var short *store.SpaceError
	if _, err := s.Reserve(t.Context(), "x", 6<<20); !errors.As(err, &short) {
		t.Errorf("reserve: %v", err)
	}
	r := must(s.Reserve(t.Context(), "x", 3<<20))
	if _, err := s.Reserve(t.Context(), "y", 3<<20); !errors.As(err, &short) {
		t.Errorf("reserve twice: %v", err)
	}
	check(t, r.Release(t.Context()))
}
