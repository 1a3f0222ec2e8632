// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
)

// Encode gives a snapshot its wire form. Times are cut to milliseconds.
func Encode(s *Snapshot) *policypb.Snapshot {
	c := &columns{base: s.Time, texts: append(make([]string, 0, 1+len(s.Nodes)+len(s.Jobs)), ""), places: map[string]uint32{}}
	pb := &policypb.Snapshot{
		Cluster: s.Cluster, Number: s.Number, Time: s.Time.UnixMilli(),
		Nodes: &policypb.Nodes{}, Jobs: &policypb.Jobs{},
		Rules: &policypb.Rules{
			Window: s.Rules.Window.Milliseconds(), Promised: s.Rules.Promised[:],
			MinRun: s.Rules.MinRun.Milliseconds(), CoolDown: s.Rules.CoolDown.Milliseconds(),
		},
	}
	c.allTables(pb, s)
	c.encodeTables(pb, s)
	pb.Texts = c.texts
	return pb
}

// Decode is the reverse of Encode. The snapshot has passed Check.
func Decode(pb *policypb.Snapshot) (*Snapshot, error) {
	s := &Snapshot{
		Cluster: pb.GetCluster(), Number: pb.GetNumber(), Time: time.UnixMilli(pb.GetTime()).UTC(),
		Nodes: rowsOf[Node](len(pb.GetNodes().GetName())), Jobs: rowsOf[Job](len(pb.GetJobs().GetId())),
	}
	rules := pb.GetRules()
	s.Rules = Rules{Window: durationOf(rules.GetWindow()), MinRun: durationOf(rules.GetMinRun()), CoolDown: durationOf(rules.GetCoolDown())}
	if n := copy(s.Rules.Promised[:], rules.GetPromised()); n != len(rules.GetPromised()) {
		return nil, fmt.Errorf("snapshot: promises for %d tiers: there are %d", len(rules.GetPromised()), Tiers)
	}
	c := &columns{decoding: true, base: s.Time, texts: pb.GetTexts()}
	c.allTables(pb, s)
	c.decodeTables(pb, s)
	if c.err != nil {
		return nil, fmt.Errorf("snapshot: %w", c.err)
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return s, nil
}

// Marshal is a snapshot as bytes, for a file.
func Marshal(s *Snapshot) ([]byte, error) { return proto.Marshal(Encode(s)) }

// Unmarshal is the reverse of Marshal.
func Unmarshal(data []byte) (*Snapshot, error) {
	pb := &policypb.Snapshot{}
	if err := proto.Unmarshal(data, pb); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return Decode(pb)
}

// EncodeIntents gives intents their wire form.
func EncodeIntents(intents []Intent) *policypb.Decision {
	pb := &policypb.Decision{Intents: make([]*policypb.Intent, 0, len(intents))}
	for _, i := range intents {
		p := &policypb.Intent{
			Verb: policypb.Verb(i.Verb), Job: int64(i.Job), Reason: i.Reason, ForJob: int64(i.For), Avoid: i.Avoid,
			Gpus: int64(i.GPUs), Tasks: int64(i.Tasks), Qos: i.QOS, Park: i.Park,
		}
		for _, w := range i.Where {
			p.Where = append(p.Where, &policypb.Spot{Node: w.Node, Capsules: int64(w.Capsules), Gpus: int64(w.GPUs)})
		}
		pb.Intents = append(pb.Intents, p)
	}
	return pb
}

// DecodeIntents is the reverse of EncodeIntents. It does not check whether the changes are possible: that is plan's
// part.
func DecodeIntents(pb *policypb.Decision) ([]Intent, error) {
	intents := make([]Intent, 0, len(pb.GetIntents()))
	for n, p := range pb.GetIntents() {
		if p == nil {
			return nil, errors.New("an intent is missing")
		}
		if p.GetVerb() <= 0 || int(p.GetVerb()) >= len(verbNames) {
			return nil, fmt.Errorf("intent %d: there is no verb %d", n, p.GetVerb())
		}
		i := Intent{
			Verb: Verb(p.GetVerb()), Job: JobID(p.GetJob()), Reason: p.GetReason(), For: JobID(p.GetForJob()), Avoid: p.GetAvoid(),
			GPUs: int(p.GetGpus()), Tasks: int(p.GetTasks()), QOS: p.GetQos(), Park: p.GetPark(),
		}
		for _, w := range p.GetWhere() {
			i.Where = append(i.Where, Spot{Node: w.GetNode(), Capsules: int(w.GetCapsules()), GPUs: int(w.GetGpus())})
		}
		intents = append(intents, i)
	}
	return intents, nil
}

func durationOf(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// rowsOf makes n rows, or nil for n = 0, so that a nil list comes back as nil.
func rowsOf[R any](n int) []R {
	if n == 0 {
		return nil
	}
	return make([]R, n)
}
