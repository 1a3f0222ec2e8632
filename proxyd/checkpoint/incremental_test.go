// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// stagedOn is a staged checkpoint, with all of an earlier one and a stream of its own.
func (l *lab) stagedOn(number, on uint32) *Upload {
	l.t.Helper()
	for _, node := range []string{"n1", "n2"} {
		c := l.nodes[node]
		h, err := c.Stage.Create(l.id(number))
		noError(l.t, err)
		noError(l.t, h.Carry("0/batch/pages-1.img", l.id(on)))
		f, err := h.Create("0/devices/blocks-2-0")
		noError(l.t, err)
		_, err = f.Write(l.image[0])
		noError(l.t, errors.Join(err, f.Close(), h.Commit([]byte("meta of "+node))))
	}
	up := &Upload{Job: 7, Number: number, Made: time.Now().UTC(), Slurm: "7", Submitted: "then", Reason: "periodic",
		Leader: "n1", Nodes: []string{"n1", "n2"}, Bytes: 1 << 20, Base: on}
	noError(l.t, l.nodes["n1"].uploads.save(up))
	return up
}

// arrive has an upload end well.
func (l *lab) arrive(up *Upload) {
	l.t.Helper()
	n1 := l.nodes["n1"]
	n1.startUpload(up, nil)
	if lost, err := l.await(n1, time.Minute); lost != nil || err != nil {
		l.t.Fatalf("wait for the upload: lost %+v, error %v", lost, err)
	}
	noError(l.t, n1.waitForUpload(l.t.Context(), 7, func() {}))
	l.there(up.Number)
}

// TestIncrementalUpload: a staged checkpoint that has streams of one in the store arrives whole, and stays so when that one is gone. While
// it is on its way, no rule deletes what it is made upon.
func TestIncrementalUpload(t *testing.T) {
	l := newLab(t)
	n1, n2 := l.boot("n1", t.TempDir()+"/s", nil), l.boot("n2", t.TempDir()+"/s", nil)
	l.arrive(l.staged(1, false))
	l.commit(n1, 2) // as if it came in between
	up := l.stagedOn(3, 1)
	n1.Keep.Count = 1
	if !n2.IsNeededAsBase(l.id(1)) || n2.IsNeededAsBase(l.id(2)) || n2.IsNeededAsBase(l.id(3)) {
		t.Error("the base is not reported as needed")
	}
	noError(t, n1.deleteExpired(t.Context(), 7))
	if got := fmt.Sprint(l.numbers()); got != "[1 2]" {
		t.Errorf("checkpoints in the store: %s", got)
	}
	n1.startUpload(up, nil)
	noError(t, n1.waitForUpload(t.Context(), 7, func() {}))
	if got := fmt.Sprint(l.numbers()); got != "[3]" {
		t.Errorf("checkpoints in the store: %s", got)
	}
	if n2.IsNeededAsBase(l.id(1)) {
		t.Error("the base is reported as needed after the upload")
	}
	for range 3 {
		_, err := n2.Store.GC(t.Context(), store.Policy{}, nil, false)
		noError(t, err)
	}
	l.there(3)
	if report, err := n2.Store.Verify(t.Context(), nil, nil); err != nil || len(report.Problems) > 0 {
		t.Errorf("verify: %+v, %v", report, err)
	}
}

// TestExpiredBase: an expired checkpoint stays if it has become a base meanwhile.
func TestExpiredBase(t *testing.T) {
	l := newLab(t)
	n1 := l.boot("n1", t.TempDir()+"/s", nil)
	l.boot("n2", t.TempDir()+"/s", nil)
	l.arrive(l.staged(1, false))
	l.stagedOn(3, 1)
	noError(t, n1.deleteUnlessBase(t.Context(), l.id(1)))
	if got := fmt.Sprint(l.numbers()); got != "[1]" {
		t.Errorf("checkpoints in the store: %s", got)
	}
	noError(t, n1.uploads.removeAll(7))
	noError(t, n1.deleteUnlessBase(t.Context(), l.id(1)))
	if got := fmt.Sprint(l.numbers()); got != "[]" {
		t.Errorf("checkpoints in the store: %s", got)
	}
}

// TestPledge: an upload takes the place of the one before when it is known to be whole. Until then that one is the job's, whoever dies,
// and what the new one is made upon stays.
func TestPledge(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir() + "/s"
	n1, n2 := l.boot("n1", dir, nil), l.boot("n2", t.TempDir()+"/s", nil)
	before := l.staged(2, false)
	up := *before
	up.Number, up.Base = 3, 1
	pledged := func(after error) {
		t.Helper()
		err := n1.uploads.pledge(&up, func() error {
			if now, err := n2.uploads.load(7); err != nil || !before.isSame(now) || !n2.IsNeededAsBase(l.id(1)) {
				t.Errorf("while pledged: upload %+v, error %v, base needed: %v", now, err, n2.IsNeededAsBase(l.id(1)))
			}
			return after
		})
		if !errors.Is(err, after) {
			t.Error(err)
		}
	}
	pledged(errBaseUnusable)
	if now, err := n2.uploads.load(7); err != nil || !before.isSame(now) || n2.IsNeededAsBase(l.id(1)) {
		t.Errorf("after a pledge without its base: upload %+v, error %v", now, err)
	}
	pledged(nil)
	if now, err := n2.uploads.load(7); err != nil || !up.isSame(now) || !n2.IsNeededAsBase(l.id(1)) {
		t.Errorf("after the pledge: upload %+v, error %v", now, err)
	}
	noError(t, n1.uploads.removeAll(7))

	noError(t, records.WriteJSON(n1.uploads.path(7, pledgeSuffix), &up)) // and then its leader died
	if !n2.IsNeededAsBase(l.id(1)) {
		t.Error("the base of a pledge is not reported as needed")
	}
	l.kill("n1")
	noError(t, n2.resumeUploads())
	if !n2.IsNeededAsBase(l.id(1)) {
		t.Error("removed the pledge of another node")
	}
	noError(t, l.boot("n1", dir, nil).resumeUploads())
	if n2.IsNeededAsBase(l.id(1)) {
		t.Error("the pledge of a killed daemon stays")
	}
}

// TestIncrementalUploadKilled is TestUploadKilled for such a checkpoint.
func TestIncrementalUploadKilled(t *testing.T) {
	for at := 1; ; at += 3 {
		l := newLab(t)
		dirs := [2]string{t.TempDir() + "/s", t.TempDir() + "/s"}
		l.boot("n1", dirs[0], nil)
		l.boot("n2", dirs[1], nil)
		l.arrive(l.staged(1, false))
		up := l.stagedOn(2, 1)
		l.kill("n1")
		n1 := l.boot("n1", dirs[0], storetest.NewFault(l.store(), at, storetest.After))
		err := n1.tryUpload(t.Context(), &uploadRun{upload: *up})
		l.kill("n1")
		if at%2 == 0 {
			l.kill("n2")
			l.boot("n2", dirs[1], nil)
		}
		n1 = l.boot("n1", dirs[0], nil)
		noError(t, n1.resumeUploads())
		if lost, err := l.await(l.nodes["n2"], time.Minute); lost != nil || err != nil {
			t.Fatalf("step %d: wait for the upload: lost %+v, error %v", at, lost, err)
		}
		l.there(2)
		if err == nil {
			if at < 8 {
				t.Fatalf("only %d steps", at)
			}
			return
		}
	}
}

// TestUploadWithoutItsBase: if the checkpoint before is deleted all the same, the one upon it is lost, and that is said; nothing that is
// not whole comes to the store.
func TestUploadWithoutItsBase(t *testing.T) {
	l := newLab(t)
	n1 := l.boot("n1", t.TempDir()+"/s", nil)
	l.boot("n2", t.TempDir()+"/s", nil)
	l.arrive(l.staged(1, false))
	up := l.stagedOn(2, 1)
	noError(t, n1.checkBaseStored(t.Context(), up))
	noError(t, n1.Store.Delete(t.Context(), l.id(1)))
	if err := n1.checkBaseStored(t.Context(), up); !errors.Is(err, errBaseUnusable) {
		t.Errorf("the deleted base is found: %v", err)
	}
	n1.startUpload(up, nil)
	lost, err := l.await(n1, time.Minute)
	if err != nil || lost == nil || !strings.Contains(lost.Lost, "0/batch/pages-1.img: the previous checkpoint cannot be used as base") {
		t.Fatalf("%+v, %v", lost, err)
	}
	if got := l.numbers(); len(got) != 0 {
		t.Errorf("checkpoints in the store: %v", got)
	}
	if n1.IsNeededAsBase(l.id(1)) {
		t.Error("the base of a lost upload is reported as needed")
	}
}

// TestOpenBase: which base a node uses for a dump into its stage and into the store.
func TestOpenBase(t *testing.T) {
	l := newLab(t)
	c := l.boot("n1", t.TempDir()+"/s", nil)
	j := c.jobFor(7)
	j.run = 2
	made := func(number uint32, run int, save string) {
		w, err := c.Store.Create(t.Context(), store.Upload{ID: l.id(number), Node: "n1"})
		noError(t, err)
		s, err := createStream(w, "3/devices/blocks-1-0")
		noError(t, err)
		_, err = s.Write(l.image[0])
		noError(t, errors.Join(err, s.Close()))
		meta := records.Meta{Version: records.MetaVersion, Run: run, Capsules: []records.CapsuleMeta{{Index: 3, Devices: &records.DeviceMeta{Save: save}}, {Index: 4}}}
		b, err := meta.Encode()
		noError(t, err)
		_, err = w.Commit(t.Context(), b)
		noError(t, err)
	}
	made(1, 1, "of another run")
	made(2, 2, "the save")
	outlets := map[string]func(number uint32) shareWriter{
		"store": func(number uint32) shareWriter {
			w, err := c.Store.Create(t.Context(), store.Upload{ID: l.id(number), Node: "n1"})
			noError(t, err)
			return storeShare{w}
		},
		"stage": func(number uint32) shareWriter {
			h, err := c.Stage.Create(l.id(number))
			noError(t, err)
			return stageShare{h}
		},
	}
	for name, open := range outlets {
		t.Run(name, func(t *testing.T) {
			w := open(3)
			for number, why := range map[uint32]string{0: "none", 1: "another run's", 9: "one that is not there"} {
				if base := j.openBase(t.Context(), w, l.id(3), number); base != nil || base.deviceSave(3) != "" {
					t.Errorf("base %s: %+v", why, base)
				}
			}
			base := j.openBase(t.Context(), w, l.id(3), 2)
			if base.deviceSave(3) != "the save" || base.deviceSave(4) != "" || base.deviceSave(5) != "" {
				t.Fatalf("%+v", base)
			}
			noError(t, base.carryStreams(t.Context(), "3/devices/", []string{"blocks-1-0"}))
			for _, bad := range []string{"blocks-1-0", "blocks-1-1"} { // twice; not there
				if err := base.carryStreams(t.Context(), "3/devices/", []string{bad}); !errors.Is(err, errBaseUnusable) || !base.carried {
					t.Errorf("%s: %v", bad, err)
				}
			}
			noError(t, w.commit(t.Context(), []byte("meta"), nil))
		})
	}
	k, err := c.Stage.Open(l.id(3))
	noError(t, err)
	if s := k.Streams; len(s) != 1 || s[0].From == nil || *s[0].From != l.id(2) {
		t.Errorf("the share: %+v", s)
	}
	r, err := c.Store.Open(t.Context(), l.id(3))
	noError(t, err)
	defer r.Close()
	in, err := r.Stream(ownStream(c, "3/devices/blocks-1-0"))
	noError(t, err)
	var b bytes.Buffer
	_, err = in.WriteTo(&b)
	noError(t, errors.Join(err, in.Close()))
	if !bytes.Equal(b.Bytes(), l.image[0]) {
		t.Error("the stream in the store differs")
	}
}

// TestCarryStreams: an error that would also occur without the base is not attributed to the base.
func TestCarryStreams(t *testing.T) {
	var err error
	on := &baseCheckpoint{carry: func(context.Context, string) error { return err }}
	if on.carryStreams(t.Context(), "3/devices/", nil) != nil || on.carried {
		t.Error("the base counts as used although no stream was taken over")
	}
	for _, tt := range []struct {
		err  error
		base bool
	}{
		{fmt.Errorf("recipe: %w", store.ErrDamaged), true},
		{syscall.EIO, true},
		{fmt.Errorf("write: %w", syscall.ENOSPC), false},
		{syscall.EDQUOT, false},
	} {
		err = tt.err
		if got := on.carryStreams(t.Context(), "3/devices/", []string{"blocks-1-0"}); !errors.Is(got, err) || errors.Is(got, errBaseUnusable) != tt.base {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = ctx.Err()
	if got := on.carryStreams(ctx, "3/devices/", []string{"blocks-1-0"}); !errors.Is(got, err) || errors.Is(got, errBaseUnusable) {
		t.Errorf("at the end of ctx: %v", got)
	}
}

// dumped are nodes that answer a dump.
type dumped map[string]dumpReply

// Phase implements Remote.
func (d dumped) Phase(_ context.Context, node, _, _, _ string, _ []byte) ([]byte, error) {
	return json.Marshal(d[node])
}

// TestUnusedBase: a base that no node used is not needed.
func TestUnusedBase(t *testing.T) {
	c := &Conductor{Config: Config{Node: "n0"}}
	a := &attempt{j: &job{c: c, id: 7}, nodes: []string{"n1", "n2"}}
	for _, tt := range []struct {
		nodes dumped
		want  uint32
	}{
		{dumped{"n1": {}, "n2": {}}, 4},
		{dumped{"n1": {BaseUnused: true}, "n2": {}}, 4},
		{dumped{"n1": {BaseUnused: true}, "n2": {BaseUnused: true}}, 0},
	} {
		c.Remote = tt.nodes
		if err := a.dumpEverywhere(t.Context(), dumpRequest{Base: 4}); err != nil || a.base != tt.want {
			t.Errorf("%+v: base %d, error %v", tt.nodes, a.base, err)
		}
	}
}
