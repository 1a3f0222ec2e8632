// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
)

func TestSnapshotsTravel(t *testing.T) {
	for seed := range uint64(300) {
		s := sdktest.Random(rand.New(rand.NewPCG(seed, 0)))
		data, err := sdk.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := sdk.Unmarshal(data)
		if err != nil {
			t.Fatalf("seed %d: Unmarshal: %v", seed, err)
		}
		if !reflect.DeepEqual(back, s) {
			t.Fatalf("seed %d: it came back another:\n%+v\n%+v", seed, back, s)
		}
	}
}

// Every field of the wire form is set once in some random snapshot; so a field that the columns forget makes
// TestSnapshotsTravel fail.
func TestRandomSnapshotsSetEveryField(t *testing.T) {
	set := map[string]bool{}
	for seed := range uint64(300) {
		noteFields(set, "", reflect.ValueOf(sdktest.Random(rand.New(rand.NewPCG(seed, 0)))))
	}
	var never []string
	for name, is := range set {
		if !is {
			never = append(never, name)
		}
	}
	if len(never) > 0 {
		t.Errorf("never set: %s", strings.Join(never, ", "))
	}
}

// noteFields remembers which fields are not zero.
func noteFields(set map[string]bool, name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		noteFields(set, name, v.Elem())
	case reflect.Slice, reflect.Array:
		set[name] = set[name] || v.Len() > 0
		for i := range v.Len() {
			noteFields(set, name, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				noteFields(set, v.Type().Name()+"."+f.Name, v.Field(i))
			}
		}
		if v.NumField() > 0 && !v.Type().Field(0).IsExported() {
			set[name] = set[name] || !v.IsZero() // a time
		}
	default:
		set[name] = set[name] || !v.IsZero()
	}
}

func TestIntentsTravel(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		intents := sdktest.RandomIntents(r, sdktest.Random(r))
		data, err := proto.Marshal(sdk.EncodeIntents(intents))
		if err != nil {
			t.Fatal(err)
		}
		pb := &policypb.Decision{}
		if err := proto.Unmarshal(data, pb); err != nil {
			t.Fatal(err)
		}
		back, err := sdk.DecodeIntents(pb)
		if err != nil || !reflect.DeepEqual(back, intents) {
			t.Fatalf("seed %d: %v: it came back another:\n%+v\n%+v", seed, err, back, intents)
		}
	}
}

func TestDecodeSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(*policypb.Snapshot)
	}{
		{"short column", "column jobs.tasks has 1 values", func(s *policypb.Snapshot) { s.Jobs.Tasks = s.Jobs.Tasks[:1] }},
		{"text that is not there", "column nodes.name: text 99999 of", func(s *policypb.Snapshot) { s.Nodes.Name[0] = 99999 }},
		{"state that is not there", "there is no state 77", func(s *policypb.Snapshot) { s.Jobs.State[0] = 77 }},
		{"number too large", "column jobs.tier: 300 is out of range", func(s *policypb.Snapshot) { s.Jobs.Tier[0] = 300 }},
		{"negative size", "is out of range", func(s *policypb.Snapshot) { s.Jobs.ShareNode[0] = 1 << 31 }},
		{"elements without end", "elements", func(s *policypb.Snapshot) { s.Jobs.ShareCount[0] = 1 << 31 }},
		{"jobs out of order", "comes after", func(s *policypb.Snapshot) { s.Jobs.Id[1] = -5 }},
		{"GPU held twice", "which another job holds", func(s *policypb.Snapshot) { s.Jobs.ShareGpus[1] = s.Jobs.ShareGpus[0] }},
		{"share of no node", "node 4000 of 4", func(s *policypb.Snapshot) { s.Jobs.ShareNode[0] = 4000 }},
		{"no capsule", "0 capsules", func(s *policypb.Snapshot) { s.Jobs.Capsules = nil }},
		{"too many tiers", "promises for 4 tiers", func(s *policypb.Snapshot) { s.Rules.Promised = make([]float64, 4) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			pb := sdk.Encode(sdktest.Cluster(sdktest.Size{Nodes: 4, GPUs: 8, Jobs: 20, Fill: 0.9, Seed: 1}))
			c.spoil(pb)
			if _, err := sdk.Decode(pb); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzUnmarshal(f *testing.F) {
	for seed := range uint64(5) {
		data, err := sdk.Marshal(sdktest.Random(rand.New(rand.NewPCG(seed, 0))))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := sdk.Unmarshal(data)
		if err != nil {
			return
		}
		if err := s.Check(); err != nil {
			t.Errorf("Unmarshal accepted a snapshot that Check refuses: %v", err)
		}
	})
}

// BenchmarkWire is the largest cluster that the contract is made for.
func BenchmarkWire(b *testing.B) {
	s := sdktest.Cluster(sdktest.Size{Nodes: 10000, GPUs: 8, Jobs: 50000, Fill: 1, Seed: 1})
	data, err := sdk.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(data)), "bytes")
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			sdk.Encode(s)
		}
	})
	b.Run("marshal", func(b *testing.B) {
		for b.Loop() {
			sdk.Marshal(s)
		}
	})
	b.Run("unmarshal", func(b *testing.B) {
		for b.Loop() {
			if _, err := sdk.Unmarshal(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestLabels: a label that is the job's id does not travel, and is there.
func TestLabels(t *testing.T) {
	s := sdktest.Cluster(sdktest.Size{Nodes: 2, GPUs: 8, Jobs: 3, Seed: 1})
	if pb := sdk.Encode(s); pb.GetJobs().Label != nil {
		t.Errorf("labels on the wire = %v, want none", pb.GetJobs().GetLabel())
	}
	s.Jobs[1].Label = "812_3"
	s.Jobs[2].Label = fmt.Sprint(s.Jobs[1].ID)
	back, err := sdk.Decode(sdk.Encode(s))
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Jobs {
		if back.Jobs[i].Label != s.Jobs[i].Label {
			t.Errorf("job %d: %q, want %q", s.Jobs[i].ID, back.Jobs[i].Label, s.Jobs[i].Label)
		}
	}
}
