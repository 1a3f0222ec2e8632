// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/filestate"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// TestOpenBase: which base a node uses for a dump into its stage and into the store.
func TestOpenBase(t *testing.T) {
	l := newLab(t)
	c := l.bootNode("n1", t.TempDir()+"/s", nil)
	j := c.jobFor(7)
	j.run.BeginNext(&records.Record{}, 2, nil, nil)
	made := func(number uint32, run int, save string) {
		w, err := c.Store.Create(t.Context(), store.Upload{ID: l.checkpointID(number), Node: "n1"})
		noError(t, err)
		s, err := upload.StoreShare{Writer: w, Node: "n1"}.Create("3/devices/blocks-1-0")
		noError(t, err)
		_, err = s.Write(l.image[0])
		noError(t, errors.Join(err, s.Close()))
		summary, err := filestate.Save(upload.StoreShare{Writer: w, Node: "n1"}, "3/", &files.State{Serial: int(number)})
		noError(t, err)
		meta := records.Meta{Run: run, Capsules: []records.CapsuleMeta{
			{Index: 3, Node: "n1", Devices: &records.DeviceMeta{Save: save}, FilesSummary: summary}, {Index: 4, Node: "n1"},
			{Index: 6, Node: "n1", OldFiles: &files.State{Serial: 60}}, {Index: 8, Node: "n2", OldFiles: &files.State{Serial: int(number)}}, // of an older release
		}}
		b, err := meta.Encode()
		noError(t, err)
		_, err = w.Commit(t.Context(), b)
		noError(t, err)
	}
	made(1, 1, "of another run")
	made(2, 2, "the save")
	resumed, err := c.openCheckpoint(l.checkpointID(1))
	noError(t, err)
	outlets := map[string]func(number uint32) upload.ShareWriter{
		"store": func(number uint32) upload.ShareWriter {
			w, err := c.Store.Create(t.Context(), store.Upload{ID: l.checkpointID(number), Node: "n1"})
			noError(t, err)
			return upload.StoreShare{Writer: w, Node: "n1"}
		},
		"stage": func(number uint32) upload.ShareWriter {
			h, err := c.Stage.Create(l.checkpointID(number))
			noError(t, err)
			return upload.StageShare{Share: h, Node: "n1", Store: c.Store}
		},
	}
	for name, open := range outlets {
		t.Run(name, func(t *testing.T) {
			w := open(3)
			for number, why := range map[uint32]string{0: "none", 1: "another run's", 9: "one that is not there"} {
				if base := j.participant.openBase(t.Context(), w, l.checkpointID(3), number); base != nil || base.DeviceSave(3) != "" {
					t.Errorf("base %s: %+v", why, base)
				}
			}
			base := j.participant.openBase(t.Context(), w, l.checkpointID(3), 2)
			if base.DeviceSave(3) != "the save" || base.DeviceSave(4) != "" || base.DeviceSave(5) != "" {
				t.Fatalf("saves of the device servers in the base: %+v", base)
			}
			for index, want := range map[int]int{3: 2, 4: 0, 5: 0, 6: 60, 8: 0} { // 8: in the streams of another node
				f, err := c.filesInBase(t.Context(), base, index)
				if err != nil || (f != nil) != (want != 0) || f != nil && f.Serial != want {
					t.Errorf("files of capsule %d in the base: %+v, %v", index, f, err)
				}
			}
			j.run.BeginNext(&records.Record{}, 2, nil, resumed)
			journal := newChangeList(t)
			for index, want := range map[int]int{3: 2, 4: 0, 6: 60, 8: 1} { // 8: of the checkpoint that the run resumed from
				f, inBase := fileHistory{&localCapsule{j: j, index: index, changes: journal}}.earlierFiles(t.Context(), base)
				if (f != nil) != (want != 0) || f != nil && f.Serial != want || inBase != (index == 3 || index == 6) {
					t.Errorf("a dump of capsule %d begins from %+v, in the base: %v", index, f, inBase)
				}
			}
			noError(t, base.CarryStreams(t.Context(), "3/devices/", []string{"blocks-1-0"}))
			for _, bad := range []string{"blocks-1-0", "blocks-1-1"} { // twice; not there
				if err := base.CarryStreams(t.Context(), "3/devices/", []string{bad}); !errors.Is(err, upload.ErrBaseUnusable) || !base.IsUsed() {
					t.Errorf("CarryStreams of %s: %v, want ErrBaseUnusable", bad, err)
				}
			}
			noError(t, w.Commit(t.Context(), []byte("meta"), nil))
		})
	}
	k, err := c.Stage.Open(l.checkpointID(3))
	noError(t, err)
	if s := k.Streams; len(s) != 1 || s[0].From == nil || *s[0].From != l.checkpointID(2) {
		t.Errorf("streams of the share: %+v, want one from checkpoint 2", s)
	}
	r, err := c.Store.Open(t.Context(), l.checkpointID(3))
	noError(t, err)
	defer r.Close()
	in, err := r.Stream(upload.OwnStream("n1", "3/devices/blocks-1-0"))
	noError(t, err)
	var b bytes.Buffer
	_, err = in.WriteTo(&b)
	noError(t, errors.Join(err, in.Close()))
	if !bytes.Equal(b.Bytes(), l.image[0]) {
		t.Error("the stream in the store differs")
	}
}

// dumped are nodes that answer a dump.
type dumped map[string]calls.DumpReply

// Call implements NodeCaller.
func (d dumped) Call(_ context.Context, node string, _ *rpc.CallRequest) (*rpc.CallReply, error) {
	return calls.Dump.EncodeReply(d[node])
}

// TestUnusedBase: a base that no node used is not needed.
func TestUnusedBase(t *testing.T) {
	c := (&Conductor{Config: Config{Node: "n0"}}).linkPartsToConductor()
	a := &attempt{j: (&job{c: c, id: 7}).linkPartsToJob(), nodes: []string{"n1", "n2"}}
	for _, tt := range []struct {
		nodes dumped
		want  uint32
	}{
		{dumped{"n1": {}, "n2": {}}, 4},
		{dumped{"n1": {BaseUnused: true}, "n2": {}}, 4},
		{dumped{"n1": {BaseUnused: true}, "n2": {BaseUnused: true}}, 0},
	} {
		c.Remote = tt.nodes
		if err := a.dumpEverywhere(t.Context(), calls.DumpArgs{Base: 4}); err != nil || a.base != tt.want {
			t.Errorf("%+v: base %d, error %v", tt.nodes, a.base, err)
		}
	}
}
